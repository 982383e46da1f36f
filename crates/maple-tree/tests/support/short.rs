//! Every short history of stores and erasures over 8 keys at fanout 4, with an allocator that refuses.
//!
//! A history is visited once for each kind of [`Visit`]. Each visit makes the tree anew, performs what comes before
//! the last operation, and holds the tree against a flat array after the last one; what comes before was a history of its own.

use maple_tree::{EraseError, Fanout, MapleTree, StoreError, SyncMapleTree, Waiting};

use super::counting::Countdown;

/// Keys in play.
pub const KEYS: usize = 8;

/// The ways to hold the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// With readers about: changes are built aside.
    pub rcu: bool,
    pub gaps: bool,
    /// RCU mode is on for every other operation only.
    pub switching: bool,
}

type Exclusive = MapleTree<u32, u8, &'static Countdown, Fanout<4>>;
type Shared = SyncMapleTree<u32, u8, Waiting, &'static Countdown, spin::Mutex<()>, Fanout<4>>;

#[allow(clippy::large_enum_variant, reason = "there are one or two at a time")]
enum Tree {
    Exclusive(Exclusive),
    Shared(Shared),
}

/// The model: the number of the operation that each key's value comes from; 0 is a hole.
type Cells = [u8; KEYS];

/// A store or an erasure of cells `first..=last`.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub first: usize,
    pub last: usize,
    pub erase: bool,
}

pub fn all_ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for first in 0..KEYS {
        for last in first..KEYS {
            for erase in [false, true] {
                ops.push(Op { first, last, erase });
            }
        }
    }
    ops
}

impl Op {
    fn on(self, cells: &mut Cells, number: usize) {
        let value = if self.erase { 0 } else { number as u8 };
        cells[self.first..=self.last].fill(value);
    }
}

impl Tree {
    fn new(mode: Mode, nodes: &'static Countdown) -> Self {
        match (mode.rcu, mode.gaps) {
            (false, false) => Tree::Exclusive(MapleTree::new_in(nodes)),
            (false, true) => Tree::Exclusive(MapleTree::with_gaps_in(nodes)),
            (true, false) => Tree::Shared(SyncMapleTree::new_in(Waiting::new(), nodes)),
            (true, true) => Tree::Shared(SyncMapleTree::with_gaps_in(Waiting::new(), nodes)),
        }
    }

    /// The same tree in the other mode.
    fn switched(self) -> Self {
        match self {
            Tree::Exclusive(t) => Tree::Shared(SyncMapleTree::from_exclusive(t, Waiting::new())),
            Tree::Shared(t) => Tree::Exclusive(t.into_exclusive()),
        }
    }

    /// False when an allocation was refused.
    fn perform(&mut self, base: u32, op: Op, number: usize) -> bool {
        let range = base + op.first as u32..=base + op.last as u32;
        if op.erase {
            let done = match self {
                Tree::Exclusive(t) => t.erase_range_splitting(range, |_, v| Some(v)),
                Tree::Shared(t) => t.write().erase_range_splitting(range, |_, v| Some(v)),
            };
            match done {
                Ok(()) => true,
                Err(EraseError::Alloc) => false,
                Err(error) => panic!("{error:?}"),
            }
        } else {
            let number = number as u8;
            let done = match self {
                Tree::Exclusive(t) => t.store_range_splitting(range, number, |_, v| Some(v)),
                Tree::Shared(t) => t
                    .write()
                    .store_range_splitting(range, number, |_, v| Some(v)),
            };
            match done {
                Ok(()) => true,
                Err(StoreError::Alloc(value)) => {
                    assert_eq!(value, number);
                    false
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// A duplicate without the entries of operation `without`; `None` when an allocation was refused.
    fn duplicate(&self, without: u8) -> Option<Self> {
        let copy = |_, v: u8| Ok((v != without).then_some(v));
        match self {
            Tree::Exclusive(t) => t.try_clone_with(copy).map(Tree::Exclusive),
            Tree::Shared(t) => {
                let exclusive = t.write().try_clone_with(copy);
                exclusive
                    .map(|copy| Tree::Shared(SyncMapleTree::from_exclusive(copy, Waiting::new())))
            }
        }
        .ok()
    }

    /// Structure and content against the model: forwards, backwards, key by key, and by gaps.
    fn compare(&self, base: u32, cells: &Cells, history: &dyn Fn() -> String) {
        match self {
            Tree::Exclusive(t) => {
                let damage = t.check().err().map(|damage| damage.to_string());
                assert_eq!(damage, None, "{}", history());
                same_entries(base, cells, t.iter(), history);
                same_entries_backwards(base, cells, t.iter().rev(), history);
                for (i, &cell) in cells.iter().enumerate() {
                    assert_eq!(t.get(base + i as u32).unwrap_or(0), cell, "{}", history());
                }
            }
            Tree::Shared(t) => {
                let damage = t.write().check().err().map(|damage| damage.to_string());
                assert_eq!(damage, None, "{}", history());
                let reader = t.read();
                same_entries(base, cells, reader.iter(), history);
                same_entries_backwards(base, cells, reader.iter().rev(), history);
                for (i, &cell) in cells.iter().enumerate() {
                    assert_eq!(
                        reader.get(base + i as u32).unwrap_or(0),
                        cell,
                        "{}",
                        history()
                    );
                }
            }
        }
        let bounds = base..=base + (KEYS as u32 - 1);
        let holes = |size: usize| {
            (0..=KEYS - size).filter(move |&at| cells[at..at + size].iter().all(|&c| c == 0))
        };
        for size in [1, 2, 5] {
            let (up, down) = match self {
                Tree::Exclusive(t) => (
                    t.gap_up(bounds.clone(), size as u32),
                    t.gap_down(bounds.clone(), size as u32),
                ),
                Tree::Shared(t) => {
                    let writer = t.write();
                    (
                        writer.gap_up(bounds.clone(), size as u32),
                        writer.gap_down(bounds.clone(), size as u32),
                    )
                }
            };
            let key = |at: usize| base + at as u32;
            assert_eq!(up, holes(size).min().map(key), "{}", history());
            assert_eq!(down, holes(size).max().map(key), "{}", history());
        }
    }
}

/// Returns the end of the run of equal cells that begins at `first`.
fn run_up(cells: &Cells, first: usize) -> usize {
    let len = cells[first..].iter().take_while(|&&c| c == cells[first]);
    first + len.count() - 1
}

type Entry = (std::ops::RangeInclusive<u32>, u8);

// What one operation stored is never cut into parts that touch, so that runs of equal cells are entries.
fn same_entries(
    base: u32,
    cells: &Cells,
    entries: impl Iterator<Item = Entry>,
    history: &dyn Fn() -> String,
) {
    let mut at = 0;
    for (range, value) in entries {
        while at < KEYS && cells[at] == 0 {
            at += 1;
        }
        assert!(at < KEYS, "{range:?} too many\n{}", history());
        let last = run_up(cells, at);
        let expected = (base + at as u32..=base + last as u32, cells[at]);
        assert_eq!((range, value), expected, "{}", history());
        at = last + 1;
    }
    assert!(
        cells[at..].iter().all(|&c| c == 0),
        "too few\n{}",
        history()
    );
}

fn same_entries_backwards(
    base: u32,
    cells: &Cells,
    entries: impl Iterator<Item = Entry>,
    history: &dyn Fn() -> String,
) {
    let mut mirrored = *cells;
    mirrored.reverse();
    let top = base + (KEYS as u32 - 1);
    let mirror = |key: u32| base + (top - key);
    same_entries(
        base,
        &mirrored,
        entries.map(|(range, value)| (mirror(*range.end())..=mirror(*range.start()), value)),
        history,
    );
}

/// The numbers of visited states.
#[derive(Debug, Default)]
pub struct Counts {
    /// Histories, each in one mode.
    pub histories: u64,
    /// Of these, performed on a duplicate again.
    pub on_duplicates: u64,
    /// Allocations refused to last operations, each followed by a comparison and another attempt.
    pub refused: u64,
    /// Allocations refused to duplications.
    pub refused_to_duplicates: u64,
}

/// Walks all histories of up to `depth` operations.
pub struct Walk {
    pub mode: Mode,
    pub base: u32,
    pub nodes: &'static Countdown,
    pub ops: Vec<Op>,
    pub counts: Counts,
}

impl Walk {
    pub fn new(mode: Mode, base: u32) -> Self {
        Self {
            mode,
            base,
            nodes: Countdown::kept(),
            ops: all_ops(),
            counts: Counts::default(),
        }
    }

    /// Builds the tree that `before` leaves.
    fn build(&self, before: &[Op]) -> Tree {
        let mut tree = Tree::new(self.mode, self.nodes);
        for (i, &op) in before.iter().enumerate() {
            assert!(tree.perform(self.base, op, i + 1));
            if self.mode.switching {
                tree = tree.switched();
            }
        }
        tree
    }

    /// All histories that begin with `before` and go on for 1 to `depth` operations.
    pub fn explore(&mut self, before: &mut Vec<Op>, depth: usize) {
        let mut cells = [0; KEYS];
        for (i, op) in before.iter().enumerate() {
            op.on(&mut cells, i + 1);
        }
        self.duplicates(before, &cells);
        for i in 0..self.ops.len() {
            let op = self.ops[i];
            self.visit(before, &cells, op);
            if depth > 1 {
                before.push(op);
                self.explore(before, depth - 1);
                before.pop();
            }
        }
    }

    /// The last operation `op`: straight on; with every allocation refused once before it is granted; and on a duplicate.
    fn visit(&mut self, before: &[Op], cells: &Cells, op: Op) {
        let (base, number) = (self.base, before.len() + 1);
        let mode = self.mode;
        let history = || format!("{mode:?} at {base}: {before:?}, then {op:?}");
        let mut after = *cells;
        op.on(&mut after, number);
        self.counts.histories += 1;

        let mut tree = self.build(before);
        let live = self.nodes.live();
        for granted in 0.. {
            self.nodes.allow(granted);
            let done = tree.perform(base, op, number);
            self.nodes.allow(usize::MAX);
            if done {
                break;
            }
            self.counts.refused += 1;
            assert_eq!(self.nodes.live(), live, "nodes kept: {}", history());
            tree.compare(base, cells, &history);
            if granted > 0 {
                continue;
            }
            // An operation that allocates, without the refusals.
            let mut straight = self.build(before);
            assert!(straight.perform(base, op, number));
            straight.compare(base, &after, &history);
            drop(straight);
            assert_eq!(self.nodes.live(), live, "nodes leak: {}", history());
        }
        tree.compare(base, &after, &history);
        drop(tree);
        assert_eq!(self.nodes.live(), 0, "nodes leak: {}", history());

        if before.is_empty() {
            return;
        }
        self.counts.on_duplicates += 1;
        let tree = self.build(before);
        let Some(mut copy) = tree.duplicate(u8::MAX) else {
            panic!("refused");
        };
        assert!(copy.perform(base, op, number));
        copy.compare(base, &after, &history);
        tree.compare(base, cells, &history);
        drop((tree, copy));
        assert_eq!(self.nodes.live(), 0, "nodes leak: {}", history());
    }

    /// Duplicates of what `before` leaves: whole, and without the entries of each operation, with every allocation refused
    /// once.
    fn duplicates(&mut self, before: &[Op], cells: &Cells) {
        let (base, mode) = (self.base, self.mode);
        let history = || format!("{mode:?} at {base}: {before:?}, then duplicated");
        let tree = self.build(before);
        let live = self.nodes.live();
        for without in 1..=before.len() as u8 + 1 {
            for granted in 0.. {
                self.nodes.allow(granted);
                let copy = tree.duplicate(without);
                self.nodes.allow(usize::MAX);
                if let Some(copy) = copy {
                    let mut left = *cells;
                    left.iter_mut()
                        .filter(|c| **c == without)
                        .for_each(|c| *c = 0);
                    copy.compare(base, &left, &history);
                    break;
                }
                self.counts.refused_to_duplicates += 1;
                assert_eq!(self.nodes.live(), live, "nodes kept: {}", history());
            }
            tree.compare(base, cells, &history);
        }
        drop(tree);
        assert_eq!(self.nodes.live(), 0, "nodes leak: {}", history());
    }
}
