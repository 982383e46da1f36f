//! The map with snapshots: what a write costs that has to copy, and one that need not.

use std::hint::black_box;

use maple_tree::CowMapleTree;
use maple_tree::alloc::SharedPool;
use samara_bench_data::{Item, Random};

use crate::measured;
use crate::operations::{ENTRIES, Operation, ranges};

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("snap", snapshot),
    ("snap-replace", replace),
    ("snap-store-drop", || after_each(1, store)),
    ("snap-replace-drop", || after_each(1, exchange)),
    ("snap-store-beside", || after_each(BESIDE, store)),
];

/// Writes while one snapshot exists.
const BESIDE: usize = 100;
/// Writes in all.
const WRITES: usize = 1_000;

static NODES: SharedPool = SharedPool::new();

type Tree = CowMapleTree<u64, u32, &'static SharedPool>;

fn filled() -> (Tree, Vec<Item>) {
    let (ranges, mut random): (_, Random) = ranges(ENTRIES);
    let mut tree = Tree::with_gaps_in(&NODES);
    for &(first, end, value) in &ranges.items {
        let _ = tree.insert_range(first..end, value);
    }
    (tree, ranges.shuffled(&mut random))
}

/// Another value over the inner part of an entry, if it has one.
fn store(tree: &mut Tree, &(first, end, value): &Item) {
    let from = first + u64::from(end - first > 1);
    let _ = black_box(tree.store_range(from..end, value ^ 1));
}

/// Another value in the very range of an entry.
fn exchange(tree: &mut Tree, &(first, end, value): &Item) {
    let _ = black_box(tree.store_range(first..end, value ^ 1));
}

/// A snapshot, and its drop.
fn snapshot() -> u32 {
    let (tree, _) = filled();
    measured(|| {
        for _ in 0..WRITES {
            drop(black_box(tree.snapshot()));
        }
    });
    WRITES as u32
}

/// Another value in an entry's range, where nothing is shared.
fn replace() -> u32 {
    let (mut tree, items) = filled();
    measured(|| {
        for item in &items[..WRITES] {
            exchange(&mut tree, item);
        }
    });
    WRITES as u32
}

/// Makes `count` writes after a snapshot, which is then dropped, again and again.
fn after_each(count: usize, write: fn(&mut Tree, &Item)) -> u32 {
    let (mut tree, items) = filled();
    // The first time makes the memory ready.
    let mut all = |items: &[Item]| {
        for items in items.chunks(count) {
            let before = tree.snapshot();
            for item in items {
                write(&mut tree, item);
            }
            drop(before);
        }
    };
    all(&items[WRITES..2 * WRITES]);
    measured(|| all(&items[..WRITES]));
    WRITES as u32
}
