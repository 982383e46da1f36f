//! Histories of a `MapleTree`: every call that changes it, with failing allocations, compared with
//! the list.

mod gaps;
mod look;
mod more;
mod store;
mod whole;

use maple_tree::alloc::{Fork, Pool};
use maple_tree::{Fanout, MapleTree, Native, Shape};

use super::index::Index;
use super::{Bytes, Countdown, Mint, Model, Nodes, Slot, Token};

type Map<K, S, A> = MapleTree<K, Box<Token>, A, S>;

/// The allocator of nodes: one by one, or from a pool, whose number of slabs says nothing about
/// that of nodes.
trait Source: Fork {
    const ONE_BY_ONE: bool;
    fn over(nodes: Nodes) -> Self;
}

impl Source for Nodes {
    const ONE_BY_ONE: bool = true;
    fn over(nodes: Nodes) -> Self {
        nodes
    }
}

impl Source for Pool<Nodes> {
    const ONE_BY_ONE: bool = false;
    fn over(nodes: Nodes) -> Self {
        Pool::new_in(nodes)
    }
}

/// Performs a history on one of few kinds of maps, which compile quickly.
///
/// # Panics
///
/// If a call gives something else than the list has, leaves the structure damaged, or something is left at the end.
pub fn play(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 6 {
        0..3 => run::<u64, Fanout<4>, Nodes>(bytes, 1 << 40),
        _ => run::<u128, Native, Pool<Nodes>>(bytes, 1 << 100),
    }
}

/// Performs a history on one of all kinds of maps.
///
/// # Panics
///
/// As [`play`].
pub fn play_any(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let code = bytes.byte();
    if code & 0x80 == 0 {
        shapes::<Nodes>(code, bytes);
    } else {
        shapes::<Pool<Nodes>>(code, bytes);
    }
}

fn shapes<A: Source>(code: u8, bytes: Bytes<'_>) {
    match code % 6 {
        0 => run::<u64, Fanout<4>, A>(bytes, 1 << 40),
        1 => run::<u32, Fanout<4>, A>(bytes, 1 << 30),
        2 => run::<u128, Fanout<5>, A>(bytes, 1 << 100),
        3 => run::<u64, Native, A>(bytes, 1 << 40),
        4 => run::<u32, Native, A>(bytes, 1 << 30),
        _ => run::<u128, Native, A>(bytes, 1 << 100),
    }
}

struct Run<K: Index, S: Shape, A: Source> {
    nodes: Nodes,
    mint: Mint,
    tree: Map<K, S, A>,
    model: Model<K>,
    middle: K,
}

fn run<K: Index, S: Shape, A: Source>(mut bytes: Bytes<'_>, middle: K) {
    let nodes = Countdown::new();
    let mut run = Run {
        tree: if bytes.byte() & 1 == 0 {
            Map::<K, S, A>::new_in(A::over(nodes.clone()))
        } else {
            Map::<K, S, A>::with_gaps_in(A::over(nodes.clone()))
        },
        mint: Mint::default(),
        model: Model::new(),
        nodes,
        middle,
    };
    while !bytes.is_empty() {
        run.step(&mut bytes);
        run.nodes.allow(usize::MAX);
        run.compare();
    }
    let Run {
        nodes, mint, tree, ..
    } = run;
    drop(tree);
    assert_eq!((nodes.live(), mint.live()), (0, 0), "something is left");
}

/// A slot that the tree shows.
fn slot<K: Index>(found: (std::ops::RangeInclusive<K>, &Token)) -> Slot<K> {
    Slot {
        first: *found.0.start(),
        last: *found.0.end(),
        number: Some(found.1.number),
    }
}

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    /// Structure, content, and counts.
    fn compare(&self) {
        if let Err(damage) = self.tree.check() {
            panic!("{damage}\n{}", self.tree);
        }
        assert!(self.tree.iter().map(slot).eq(self.model.entries()));
        assert_eq!(self.mint.live(), self.model.entries().count());
        if A::ONE_BY_ONE {
            assert_eq!(self.nodes.live(), self.tree.stats().nodes());
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let code = bytes.byte();
        // Some calls meet an allocator that is about to fail.
        if code & 0xc0 == 0x40 {
            self.nodes.allow(usize::from(bytes.byte() % 8));
        }
        let middle = self.middle;
        match code % 32 {
            0 | 1 => self.insert(bytes.range(middle)),
            2 => self.store(bytes.range(middle)),
            3 | 4 => self.store_splitting(bytes.range(middle), bytes.byte() != 0),
            5 => self.store_with(bytes.range(middle)),
            6 => self.erase(bytes.range(middle)),
            7 => self.erase_splitting(bytes.range(middle)),
            8 | 9 => self.remove(bytes.key(middle)),
            10 => self.replace(bytes.key(middle)),
            11 => self.grow(bytes.key(middle), bytes.range(middle)),
            12 => self.allocate(bytes.range(middle), bytes.small(20), code & 0x20 == 0),
            13 => self.cyclic(bytes.range(middle), bytes.key(middle)),
            14 => self.gaps(bytes),
            15 => self.duplicate(bytes.byte(), bytes.byte()),
            16 => self.retain(bytes.byte()),
            17 => self.traverse(bytes),
            18 => self.look(bytes.key(middle)),
            19 => self.change(bytes.range(middle)),
            20 => self.extend(bytes),
            21 => self.entry(bytes.range(middle), bytes.byte()),
            22 => self.pop(code & 0x40 == 0),
            23 if code & 0x80 == 0 => self.split_off(bytes.key(middle), bytes.byte() != 0),
            23 => self.cut(bytes.range(middle), bytes.byte() != 0),
            24 if code & 0x80 == 0 => self.append(bytes),
            24 => self.merge(bytes),
            25 | 26 => self.coalesce(bytes.range(middle), code & 1 == 0, bytes.byte()),
            27 => self.take_apart(bytes.byte(), bytes.byte()),
            28 => self.many(bytes),
            29 => self.walk_over(bytes),
            30 => self.combine(bytes),
            _ => {
                // Rarely: a history that starts over has a short memory.
                if bytes.byte() > 0xf0 {
                    self.tree.clear();
                    self.model = Model::new();
                }
            }
        }
    }

    /// A new value, and its number.
    fn token(&mut self) -> (u32, Box<Token>) {
        let number = self.mint.number();
        (number, Box::new(self.mint.copy(number)))
    }
}
