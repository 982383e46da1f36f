//! Histories of a family of `CowMapleTree`s: several trees and snapshots alive at once, written, dropped, converted and moved to threads in
//! any order, with allocations that are refused, values that cannot be made once more, and values whose duplication panics.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{
    CowMapleTree, Duplicate, EraseError, Fanout, InsertError, Key, Native, Shape, StoreError,
    Value, View,
};

use super::{Bytes, Countdown, Mint, Model, Nodes, Slot, Token};

/// What becomes of the duplication of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// There is no memory.
    Refused,
    Panics,
}

/// How many values can still be made once more, and what happens then.
struct Fuel {
    left: AtomicUsize,
    panics: AtomicUsize,
}

impl Fuel {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(usize::MAX),
            panics: AtomicUsize::new(0),
        })
    }

    fn allow(&self, left: usize, end: End) {
        self.left.store(left, Ordering::Relaxed);
        self.panics
            .store(usize::from(end == End::Panics), Ordering::Relaxed);
    }

    fn take(&self) -> Option<()> {
        match self.left.load(Ordering::Relaxed) {
            usize::MAX => {}
            // Without the hook, which ends a fuzz target.
            0 if self.panics.load(Ordering::Relaxed) == 1 => resume_unwind(Box::new(())),
            0 => return None,
            n => self.left.store(n - 1, Ordering::Relaxed),
        }
        Some(())
    }
}

/// A token that cannot always be made once more.
struct Frail {
    token: Token,
    fuel: Arc<Fuel>,
    mint: Mint,
}

struct Held(Box<Frail>);

impl<'a> View<'a> for Held {
    type Ref = &'a Frail;
    type Mut = &'a mut Frail;
}

// SAFETY: everything is left to the box.
unsafe impl Value for Held {
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise is passed on.
        Self(unsafe { <Box<Frail> as Value>::from_raw(raw) })
    }

    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a Frail {
        // SAFETY: the caller's promise is passed on.
        unsafe { <Box<Frail> as Value>::borrow(raw) }
    }

    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut Frail {
        // SAFETY: the caller's promise is passed on.
        unsafe { <Box<Frail> as Value>::borrow_mut(slot) }
    }
}

impl Duplicate for Held {
    fn duplicate(view: &Frail) -> Option<Self> {
        view.fuel.take()?;
        Some(view.twin())
    }
}

impl Frail {
    fn twin(&self) -> Held {
        Held(Box::new(Self {
            token: self.mint.copy(self.token.number),
            fuel: self.fuel.clone(),
            mint: self.mint.again(),
        }))
    }
}

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
struct Member<K: Key, S: Shape> {
    map: Map<K, S>,
    model: Model<K>,
}

impl<K: Key, S: Shape> Member<K, S> {
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
fn slot<K: Key>(found: (RangeInclusive<K>, &Frail)) -> Slot<K> {
    Slot {
        first: *found.0.start(),
        last: *found.0.end(),
        number: Some(found.1.token.number),
    }
}

/// Several maps, some of which share nodes.
struct Family<K: Key, S: Shape> {
    members: Vec<Member<K, S>>,
    nodes: Nodes,
    fuel: Arc<Fuel>,
    mint: Mint,
    middle: K,
    /// No other thread has maps of the same nodes.
    alone: bool,
}

const MOST_MEMBERS: usize = 6;

fn run<K: Key, S: Shape>(mut bytes: Bytes<'_>, middle: K) {
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

/// What a call that may fail came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Yes,
    Refused,
}

impl<K: Key, S: Shape> Family<K, S> {
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

    /// One write. Some meet nodes, or duplicates of values, that are refused after 0, 1, 2 … until the write succeeds: each failure
    /// changes nothing anywhere.
    fn write(&mut self, which: usize, code: u8, bytes: &mut Bytes<'_>) {
        let (range, split) = (bytes.range(self.middle), bytes.byte());
        let number = self.mint.number();
        for granted in 0.. {
            let (live, tokens) = (self.nodes.live(), self.mint.live());
            match code >> 5 {
                1 if self.alone => self.nodes.allow(granted),
                2 if self.alone => self.fuel.allow(granted, End::Refused),
                3 if self.alone => self.fuel.allow(granted, End::Panics),
                _ => {}
            }
            let call = AssertUnwindSafe(|| self.perform(which, code, range, split, number));
            let done = catch_unwind(call).unwrap_or(Done::Refused);
            if self.alone {
                self.nodes.allow(usize::MAX);
                self.fuel.allow(usize::MAX, End::Refused);
            }
            if done == Done::Yes {
                return;
            }
            assert!(matches!(code >> 5, 1..=3) && self.alone);
            assert_eq!((self.nodes.live(), self.mint.live()), (live, tokens));
            self.compare();
        }
    }

    fn perform(
        &mut self,
        which: usize,
        code: u8,
        (first, last): (K, K),
        split: u8,
        number: u32,
    ) -> Done {
        let value = self.value(number);
        let Member { map, model } = &mut self.members[which];
        let range = first..=last;
        let there = model.at(first);
        let whole = there.first..=there.last;
        let splits = model.splits(first, last);
        let above = last.wrapping_add(K::ONE)..=model.at(last).last;
        let may_split = split & 3 != 0;
        let twin = |part: RangeInclusive<K>, frail: &Frail| {
            assert!(splits);
            assert_eq!(part, above);
            may_split.then(|| frail.twin())
        };
        let (done, put) = match code % 32 {
            11..14 => match map.insert_range(range, value) {
                Ok(()) => {
                    assert!(model.is_free(first, last));
                    (Done::Yes, Some((first, last, Some(number))))
                }
                Err(InsertError::Occupied(back)) => {
                    assert_eq!(back.0.token.number, number);
                    assert!(!model.is_free(first, last));
                    (Done::Yes, None)
                }
                Err(InsertError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(InsertError::EmptyRange(_)) => panic!("it is not empty"),
            },
            14..18 => match map.store_range(range, value) {
                Ok(()) => (Done::Yes, Some((first, last, Some(number)))),
                Err(StoreError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(_) => panic!("it splits by itself"),
            },
            18..20 => match map.store_range_splitting(range, value, twin) {
                Ok(()) => {
                    assert!(may_split || !splits);
                    (Done::Yes, Some((first, last, Some(number))))
                }
                Err(StoreError::Splits(back)) => {
                    assert_eq!(back.0.token.number, number);
                    assert!(splits && !may_split);
                    (Done::Yes, None)
                }
                Err(StoreError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(StoreError::EmptyRange(_)) => panic!("it is not empty"),
            },
            20..23 => match map.erase_range(range) {
                Ok(()) => (Done::Yes, Some((first, last, None))),
                Err(EraseError::Alloc) => (Done::Refused, None),
                Err(_) => panic!("it splits by itself"),
            },
            23 => match map.erase_range_splitting(range, twin) {
                Ok(()) => {
                    assert!(may_split || !splits);
                    (Done::Yes, Some((first, last, None)))
                }
                Err(EraseError::Splits) => {
                    assert!(splits && !may_split);
                    (Done::Yes, None)
                }
                Err(EraseError::Alloc) => (Done::Refused, None),
                Err(EraseError::EmptyRange) => panic!("it is not empty"),
            },
            24..27 => match map.remove(first) {
                Ok(Some((range, back))) => {
                    assert_eq!(
                        (range, Some(back.0.token.number)),
                        (whole.clone(), there.number)
                    );
                    (Done::Yes, Some((there.first, there.last, None)))
                }
                Ok(None) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
            27..29 => match map.replace(first, value) {
                Ok(old) => {
                    assert_eq!(Some(old.0.token.number), there.number);
                    (Done::Yes, Some((there.first, there.last, Some(number))))
                }
                Err(back) => {
                    assert_eq!(back.0.token.number, number);
                    // A hole is not told apart from a refusal.
                    let done = if there.number.is_none() {
                        Done::Yes
                    } else {
                        Done::Refused
                    };
                    (done, None)
                }
            },
            29..31 => match map.get_mut(first) {
                Ok(Some(frail)) => {
                    assert_eq!(Some(frail.token.number), there.number);
                    frail.token.number = number;
                    (Done::Yes, Some((there.first, there.last, Some(number))))
                }
                Ok(None) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
            _ => match map.insert(first, value) {
                Ok(()) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, Some((first, first, Some(number))))
                }
                Err(InsertError::Occupied(_)) => {
                    assert!(there.number.is_some());
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
        };
        if let Some((first, last, number)) = put {
            model.store(first, last, number);
        }
        done
    }

    /// Some entries in a row, until there is no more memory.
    fn extend(&mut self, which: usize, bytes: &mut Bytes<'_>) {
        let (mut at, step, granted) = (bytes.key(self.middle), bytes.byte(), bytes.byte());
        let (size, room) = (small(step & 7), small(step >> 3 & 7));
        let mut planned = Vec::new();
        for _ in 0..bytes.byte() % 40 {
            let Some(last) = at.checked_add(size) else {
                break;
            };
            planned.push((at, last, self.mint.number()));
            let Some(next) = last.checked_add(room).and_then(K::successor) else {
                break;
            };
            at = next;
        }
        let entries: Vec<_> = planned
            .iter()
            .map(|&(first, last, number)| (first..=last, self.value(number)))
            .collect();
        if granted < 16 && self.alone {
            self.nodes.allow(usize::from(granted));
        }
        let Member { map, model } = &mut self.members[which];
        if let Err(error) = map.try_extend(entries) {
            let dry = matches!(error, InsertError::Alloc(_));
            let number = error.into_value().0.token.number;
            let at = planned.iter().position(|p| p.2 == number).unwrap();
            assert!(if dry {
                self.nodes.is_dry()
            } else {
                !model.is_free(planned[at].0, planned[at].1)
            });
            planned.truncate(at);
        }
        for (first, last, number) in planned {
            assert!(model.is_free(first, last));
            model.store(first, last, Some(number));
        }
        if self.alone {
            self.nodes.allow(usize::MAX);
        }
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

    fn look(&self, which: usize, bytes: &mut Bytes<'_>) {
        let Member { map, model } = &self.members[which];
        let key = bytes.key(self.middle);
        let expected = model.at(key);
        let range = expected.first..=expected.last;
        assert_eq!(
            map.get(key).map(|frail| frail.token.number),
            expected.number
        );
        match expected.number {
            Some(_) => assert_eq!(map.get_range(key).map(slot), Some(expected)),
            None => assert_eq!(map.hole_at(key), Some(range)),
        }
        assert_eq!(map.first().map(slot), model.entries().next());
        assert_eq!(map.last().map(slot), model.entries().next_back());
        let bounds = bytes.range(self.middle);
        let within = model.within(bounds.0, bounds.1);
        assert!(
            map.range(bounds.0..=bounds.1)
                .map(slot)
                .eq(within.iter().copied())
        );
        let backwards = map.range(bounds.0..=bounds.1).rev().map(slot);
        assert!(backwards.eq(within.iter().rev().copied()));
        let (size, align, offset): (K, K, K) = (bytes.small(40), bytes.small(17), bytes.small(17));
        assert_eq!(
            map.gap_up_aligned(
                bounds.0..=bounds.1,
                size.number(),
                align.number(),
                offset.number()
            ),
            model.gap(bounds, size, align, offset, true)
        );
        assert_eq!(
            map.gap_down_aligned(
                bounds.0..=bounds.1,
                size.number(),
                align.number(),
                offset.number()
            ),
            model.gap(bounds, size, align, offset, false)
        );
    }

    /// Some of the maps go to another thread, and come back; both threads write theirs, and take snapshots of one that both look at.
    fn threads(&mut self, bytes: &mut Bytes<'_>) {
        let (which, length) = (bytes.byte(), usize::from(bytes.byte() % 64));
        let rest = bytes.0.as_slice();
        let (one, rest) = rest.split_at(length.min(rest.len()));
        let (two, rest) = rest.split_at(length.min(rest.len()));
        *bytes = Bytes::new(rest);
        let common = self
            .members
            .swap_remove(usize::from(which) % self.members.len());
        let mut other = Self {
            members: vec![common.snapshot()],
            nodes: self.nodes.clone(),
            fuel: self.fuel.clone(),
            mint: self.mint.again(),
            middle: self.middle,
            alone: false,
        };
        // The numbers tell who made a value.
        other.mint.next += 1 << 24;
        self.alone = false;
        let half = self.members.len() / 2;
        other.members.extend(self.members.drain(half..));
        self.members.push(common.snapshot());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| other.side(two, &common));
            self.side(one, &common);
            // Waits until the thread itself is gone, and not only what it does: leak checkers look at what it had.
            thread.join().unwrap();
        });
        self.members.append(&mut other.members);
        self.members.push(common);
        self.mint.next = other.mint.next;
        self.alone = true;
        self.members.truncate(MOST_MEMBERS);
    }

    fn side(&mut self, bytes: &[u8], common: &Member<K, S>) {
        let mut bytes = Bytes::new(bytes);
        while !bytes.is_empty() {
            let code = bytes.byte();
            if code >= 0xf0 && self.members.len() < MOST_MEMBERS {
                common.compare();
                self.members.push(common.snapshot());
            } else {
                self.step(code, &mut bytes);
            }
            self.compare();
        }
    }
}

fn small<K: Key>(n: u8) -> K {
    super::small(n)
}
