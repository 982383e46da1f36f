//! Histories of a family of `CowMapleTree`s: several trees and snapshots alive at once, written, dropped, converted and moved to threads in
//! any order, with allocations that are refused, values that cannot be made once more, and values whose duplication panics.

mod look;
mod threads;
mod value;
mod write;

use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_tree::{CowMapleTree, Fanout, Native, Shape};

use super::index::Index;
use super::{Bytes, Countdown, Mint, Model, Nodes, Slot};
use value::{Frail, Fuel, Held};

/// Performs a history on the kind of maps that has the most nodes for its entries, on one whose keys have a sign, or on one with all slots.
///
/// # Panics
///
/// If a call gives something else than the list has, leaves the structure damaged, or something is left at the end.
pub fn play(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 6 {
        0..3 => run::<u64, Fanout<4>>(bytes, 1 << 40),
        3 => run::<i64, Fanout<4>>(bytes, -3),
        _ => run::<u128, Native>(bytes, 1 << 100),
    }
}

/// Performs a history on one of all kinds of maps.
///
/// # Panics
///
/// As [`play`].
pub fn play_any(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 6 {
        0 => run::<u64, Fanout<4>>(bytes, 1 << 40),
        1 => run::<u32, Fanout<5>>(bytes, 1 << 30),
        2 => run::<usize, Fanout<4>>(bytes, 1 << (usize::BITS - 24)),
        3 => run::<u64, Native>(bytes, 1 << 40),
        4 => run::<i32, Native>(bytes, -3),
        _ => run::<u128, Native>(bytes, 1 << 100),
    }
}

type Map<K, S> = CowMapleTree<K, Held, Nodes, S>;

/// A map, and what it should hold.
struct Member<K: Index, S: Shape> {
    map: Map<K, S>,
    model: Model<K>,
}

impl<K: Index, S: Shape> Member<K, S> {
    fn snapshot(&self) -> Self {
        let map = self.map.snapshot();
        assert!(map.is_same(&self.map));
        Self {
            map,
            model: self.model.clone(),
        }
    }

    /// Structure and content.
    fn compare(&self) {
        if let Err(damage) = self.map.check() {
            panic!("{damage}");
        }
        assert!(self.map.iter().map(slot).eq(self.model.entries()));
        assert_eq!(self.map.is_empty(), self.model.entries().next().is_none());
    }
}

/// A slot that a map shows.
fn slot<K: Index>(found: (RangeInclusive<K>, &Frail)) -> Slot<K> {
    Slot {
        first: *found.0.start(),
        last: *found.0.end(),
        number: Some(found.1.token.number),
    }
}

/// Several maps, some of which share nodes.
struct Family<K: Index, S: Shape> {
    members: Vec<Member<K, S>>,
    nodes: Nodes,
    fuel: Arc<Fuel>,
    mint: Mint,
    middle: K,
    /// No other thread has maps of the same nodes.
    alone: bool,
}

const MOST_MEMBERS: usize = 6;

fn run<K: Index, S: Shape>(mut bytes: Bytes<'_>, middle: K) {
    let mut family = Family::<K, S> {
        members: Vec::new(),
        nodes: Countdown::new(),
        fuel: Fuel::new(),
        mint: Mint::default(),
        middle,
        alone: true,
    };
    family.begin(bytes.byte());
    while !bytes.is_empty() {
        let code = bytes.byte();
        if code >= 0xf8 {
            family.threads(&mut bytes);
        } else {
            family.step(code, &mut bytes);
        }
        family.compare();
    }
    // They go in some order; what the last one holds is all that there is.
    while family.members.len() > 1 {
        let which = bytes.byte() as usize % family.members.len();
        drop(family.members.swap_remove(which));
        family.compare();
    }
    let Family {
        members,
        nodes,
        mint,
        ..
    } = family;
    drop(members);
    assert_eq!((nodes.live(), mint.live()), (0, 0), "something is left");
}

impl<K: Index, S: Shape> Family<K, S> {
    /// A map that shares nothing.
    fn begin(&mut self, code: u8) {
        let nodes = self.nodes.clone();
        self.members.push(Member {
            map: if code & 1 == 0 {
                Map::new_in(nodes)
            } else {
                Map::with_gaps_in(nodes)
            },
            model: Model::new(),
        });
    }

    fn compare(&self) {
        self.compare_structure();
        if !self.alone {
            return;
        }
        let entries = self.members.iter().map(|m| m.model.entries().count());
        assert!(self.mint.live() <= entries.sum());
        if let [only] = &self.members[..] {
            let sharing = only.map.sharing();
            assert_eq!((sharing.own, sharing.shared), (self.nodes.live(), 0));
            assert_eq!(self.mint.live(), only.model.entries().count());
        }
    }

    fn compare_structure(&self) {
        for member in &self.members {
            member.compare();
        }
        if !self.alone {
            return;
        }
        let maps: Vec<_> = self.members.iter().map(|member| &member.map).collect();
        if let Err(damage) = CowMapleTree::check_family(&maps) {
            panic!("{damage}");
        }
    }

    fn step(&mut self, code: u8, bytes: &mut Bytes<'_>) {
        let which = usize::from(bytes.byte()) % self.members.len();
        match code % 32 {
            0 | 1 if self.members.len() < MOST_MEMBERS => {
                let taken = self.members[which].snapshot();
                self.members.push(taken);
            }
            0 | 2 if self.members.len() > 1 => drop(self.members.swap_remove(which)),
            3 if self.members.len() < MOST_MEMBERS => self.begin(bytes.byte()),
            // One takes the place of another.
            4 => {
                let from = usize::from(bytes.byte()) % self.members.len();
                self.members[which] = self.members[from].snapshot();
            }
            5 => self.convert(which, bytes),
            6 if bytes.byte() > 0xe0 => {
                self.members[which].map.clear();
                self.members[which].model = Model::new();
            }
            7..10 => self.look(which, bytes),
            10 => self.extend(which, bytes),
            _ => self.write(which, code, bytes),
        }
    }

    fn value(&self, number: u32) -> Held {
        Held(Box::new(Frail {
            token: self.mint.copy(number),
            fuel: self.fuel.clone(),
            mint: self.mint.again(),
        }))
    }

    /// To a map for one owner, which is written, and back.
    fn convert(&mut self, which: usize, bytes: &mut Bytes<'_>) {
        let (granted, back, (first, last)) = (bytes.byte(), bytes.byte(), bytes.range(self.middle));
        let number = self.mint.number();
        let value = self.value(number);
        let Member { map, mut model } = self.members.swap_remove(which);
        if granted < 16 && self.alone {
            self.nodes.allow(usize::from(granted));
        }
        let map = match map.into_exclusive() {
            Ok(mut own) => {
                own.check().unwrap();
                assert!(own.iter().map(slot).eq(model.entries()));
                self.compare_structure();
                if back & 1 == 1 {
                    let done = own
                        .store_range_splitting(first..=last, value, |_, frail| Some(frail.twin()));
                    match done {
                        Ok(()) => model.store(first, last, Some(number)),
                        Err(_) => assert!(self.nodes.is_dry()),
                    }
                    own.check().unwrap();
                }
                match Map::from_exclusive(own) {
                    Ok(map) => map,
                    Err(own) => {
                        assert!(self.nodes.is_dry());
                        assert!(own.iter().map(slot).eq(model.entries()));
                        self.nodes.allow(usize::MAX);
                        Map::from_exclusive(own).ok().unwrap()
                    }
                }
            }
            Err(map) => {
                assert!(self.nodes.is_dry());
                map
            }
        };
        if self.alone {
            self.nodes.allow(usize::MAX);
        }
        self.members.push(Member { map, model });
    }
}
