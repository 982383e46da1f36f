//! The operations. Each builds its tree, performs the calls within [`measured`], and tells how many there were.

use std::hint::black_box;

use maple_tree::{MapleTree, SyncMapleTree, Waiting};
use samara_bench_data::{Random, Ranges};

use crate::measured;

type Tree = MapleTree<u64, u32>;

/// Entries of most trees.
pub(crate) const ENTRIES: u64 = 10_000;
/// Entries of a tree that is duplicated and destroyed: as many as a small program has areas, in the seed's experiment.
pub(crate) const SMALL: u64 = 134;
/// The number of small trees.
pub(crate) const COPIES: u32 = 64;
/// Calls that look something up.
pub(crate) const LOOKUPS: usize = 10_000;

/// Performs an operation, and tells how many calls that was (of entries, where it goes through all).
pub(crate) type Operation = fn() -> u32;

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("get", get),
    ("get-many", get_many),
    ("iterate", iterate),
    ("append", append),
    ("insert", insert),
    ("erase", erase),
    ("replace", replace),
    ("overwrite", overwrite),
    ("duplicate", duplicate),
    ("duplicate-new", renew),
    ("destroy", destroy),
    ("gap-up", gap_up),
    ("gap-down", gap_down),
    ("alloc-up", alloc_up),
    ("alloc-down", alloc_down),
    ("rcu-pair", rcu_pair),
    ("rcu-pair-reading", rcu_pair_reading),
    ("gap-aligned", gap_aligned),
    ("gap-aligned-down", gap_aligned_down),
    ("gap-aligned-none", gap_aligned_none),
];

pub(crate) fn ranges(n: u64) -> (Ranges, Random) {
    let mut random = Random::new(1);
    (Ranges::new(n, &mut random), random)
}

pub(crate) fn filled(ranges: &Ranges) -> Tree {
    let mut tree = Tree::with_gaps();
    for &(first, end, value) in &ranges.items {
        let _ = tree.insert_range(first..end, value);
    }
    tree
}

fn get() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.hits(LOOKUPS, &mut random);
    measured(|| {
        for &key in &keys {
            black_box(tree.get(key));
        }
    });
    keys.len() as u32
}

/// Sixteen keys at once.
fn get_many() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.hits(LOOKUPS, &mut random);
    let (keys, _) = keys.as_chunks::<16>();
    measured(|| {
        for keys in keys {
            black_box(tree.get_many(*keys));
        }
    });
    keys.len() as u32 * 16
}

fn iterate() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let tree = filled(&ranges);
    measured(|| {
        let sum = tree.iter().fold(0_u64, |sum, (range, value)| {
            sum.wrapping_add(range.start() + u64::from(value))
        });
        black_box(sum);
    });
    ENTRIES as u32
}

fn append() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let mut tree = Tree::with_gaps();
    measured(|| {
        for &(first, end, value) in &ranges.items {
            let _ = tree.insert_range(first..end, value);
        }
    });
    ENTRIES as u32
}

fn insert() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut tree = Tree::with_gaps();
    measured(|| {
        for &(first, end, value) in &items {
            let _ = tree.insert_range(first..end, value);
        }
    });
    ENTRIES as u32
}

fn erase() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut tree = filled(&ranges);
    measured(|| {
        for &(first, _, _) in &items {
            let _ = black_box(tree.remove(first));
        }
    });
    ENTRIES as u32
}

fn replace() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut tree = filled(&ranges);
    measured(|| {
        for &(first, end, value) in &items {
            let _ = tree.store_range(first..end, value ^ 1);
        }
    });
    ENTRIES as u32
}

fn overwrite() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.overwrites(ENTRIES as usize / 4, &mut random);
    let mut tree = filled(&ranges);
    measured(|| {
        for &(first, end, value) in &items {
            let _ = tree.store_range_splitting(first..end, value, |_, value| Some(value));
        }
    });
    items.len() as u32
}

fn duplicate() -> u32 {
    let (ranges, _) = ranges(SMALL);
    let tree = filled(&ranges);
    let mut copies = Vec::with_capacity(COPIES as usize);
    // The first time makes the memory ready.
    copies.extend((0..COPIES).map(|_| copy(&tree)));
    copies.clear();
    measured(|| {
        for _ in 0..COPIES {
            copies.push(copy(&tree));
        }
    });
    COPIES
}

fn copy(tree: &Tree) -> Option<Tree> {
    tree.try_clone().ok()
}

/// A duplicate with another value in each entry.
fn renew() -> u32 {
    let (ranges, _) = ranges(SMALL);
    let tree = filled(&ranges);
    let renewed = || tree.try_clone_with(|_, value| Ok(Some(value ^ 1))).ok();
    let mut copies = Vec::with_capacity(COPIES as usize);
    copies.extend((0..COPIES).map(|_| renewed()));
    copies.clear();
    measured(|| copies.extend((0..COPIES).map(|_| renewed())));
    COPIES
}

fn destroy() -> u32 {
    let (ranges, _) = ranges(SMALL);
    let tree = filled(&ranges);
    let mut copies: Vec<_> = (0..COPIES).map(|_| copy(&tree)).collect();
    measured(|| copies.clear());
    COPIES
}

fn gap_up() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.anywhere(LOOKUPS, &mut random);
    measured(|| {
        for (&key, size) in keys.iter().zip([1, 4096].into_iter().cycle()) {
            black_box(tree.gap_up(key.., size));
        }
    });
    keys.len() as u32
}

fn gap_down() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.anywhere(LOOKUPS, &mut random);
    measured(|| {
        for (&key, size) in keys.iter().zip([1, 4096].into_iter().cycle()) {
            black_box(tree.gap_down(..key, size));
        }
    });
    keys.len() as u32
}

/// As many ranges of one page as other trees have entries, from the lowest index up.
fn alloc_up() -> u32 {
    let mut tree = Tree::with_gaps();
    measured(|| {
        for i in 0..ENTRIES {
            let _ = black_box(tree.alloc_range(.., 1 + i % 4, 0));
        }
    });
    ENTRIES as u32
}

/// As [`alloc_up`], from the highest down.
fn alloc_down() -> u32 {
    let mut tree = Tree::with_gaps();
    measured(|| {
        for i in 0..ENTRIES {
            let _ = black_box(tree.alloc_rrange(.., 1 + i % 4, 0));
        }
    });
    ENTRIES as u32
}

/// As the holes of [`filled`] are at most 64 pages but for a few.
fn gap_aligned() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.anywhere(LOOKUPS, &mut random);
    measured(|| {
        for &key in &keys {
            black_box(tree.gap_up_aligned(key.., 8, 512, 0));
        }
    });
    keys.len() as u32
}

fn gap_aligned_down() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let keys = ranges.anywhere(LOOKUPS, &mut random);
    measured(|| {
        for &key in &keys {
            black_box(tree.gap_down_aligned(..key, 8, 512, 0));
        }
    });
    keys.len() as u32
}

/// One multiple lies within the bounds, and it is taken.
fn gap_aligned_none() -> u32 {
    const CALLS: u32 = 100;
    let (ranges, _) = ranges(ENTRIES);
    let tree = filled(&ranges);
    let taken = ranges.items[ranges.items.len() / 2].0;
    measured(|| {
        for _ in 0..CALLS {
            black_box(tree.gap_up_aligned(1..ranges.end, 1, 1 << 30, taken));
        }
    });
    CALLS
}

/// With a reader of the same thread that stays.
fn rcu_pair_reading() -> u32 {
    const PAIRS: usize = 1_000;
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let tree: SyncMapleTree<u64, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    let mut writer = tree.write();
    for &(first, end, value) in &ranges.items {
        let _ = writer.insert_range(first..end, value);
    }
    let reader = tree.read();
    measured(|| {
        for &(first, end, value) in &items[..PAIRS] {
            let _ = black_box(writer.remove(first));
            let _ = writer.store_range(first..end, value);
        }
    });
    drop(reader);
    PAIRS as u32
}

fn rcu_pair() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let tree: SyncMapleTree<u64, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    let mut writer = tree.write();
    for &(first, end, value) in &ranges.items {
        let _ = writer.insert_range(first..end, value);
    }
    measured(|| {
        for &(first, end, value) in &items {
            let _ = black_box(writer.remove(first));
            let _ = writer.store_range(first..end, value);
        }
    });
    ENTRIES as u32
}
