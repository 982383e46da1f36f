//! Maps that share nodes, compared with a flat array for each: all short histories on two maps at
//! fanout 4, and long random ones over a family of snapshots. In these, allocations fail at each
//! place, and values fail or panic when they are duplicated. Threads read and write concurrently.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod many;
mod painting;
mod random;
mod short;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod values;

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use maple_tree::alloc::{Counted, Global, NodeAlloc};
use maple_tree::{CowMapleTree, MapleTree, Shape, SharedAlloc};
use support::{Index, Model, Number};

/// Refuses the allocation after the next `left` ones, and all after it; never, at `usize::MAX`.
struct Countdown {
    inner: Counted<Global>,
    left: Cell<usize>,
}

impl Countdown {
    fn new() -> Self {
        Self {
            inner: Counted::new(Global),
            left: Cell::new(usize::MAX),
        }
    }
}

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self.left.get() {
            0 => return None,
            usize::MAX => {}
            n => self.left.set(n - 1),
        }
        self.inner.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

/// Compares content, read in every way.
fn compare<K: Index, A: SharedAlloc, S: Shape>(
    model: &Model<K>,
    map: &CowMapleTree<K, Number, A, S>,
    context: &dyn Fn() -> String,
) {
    let entries = model.entries();
    let show = || format!("{}\n{}", context(), map.dump(maple_tree::Format::Decimal));
    assert_eq!(map.iter().collect::<Vec<_>>(), entries, "{}", show());
    let mut backwards: Vec<_> = map.iter().rev().collect();
    backwards.reverse();
    assert_eq!(backwards, entries, "{}", show());
    for (i, &cell) in model.cells.iter().enumerate() {
        assert_eq!(map.get(model.key(i)), cell, "{}", show());
    }
}

/// A map, and what it should hold.
type Modelled<K, A, S> = (CowMapleTree<K, Number, A, S>, Model<K>);

/// Compares all maps that share nodes, and checks structure and counts.
fn compare_family<K: Index, A: SharedAlloc, S: Shape>(
    family: &[Modelled<K, A, S>],
    context: &dyn Fn() -> String,
) {
    let maps: Vec<_> = family.iter().map(|(map, _)| map).collect();
    if let Err(damage) = CowMapleTree::check_family(&maps) {
        panic!("{damage}\n{}", context());
    }
    for (map, model) in family {
        compare(model, map, context);
    }
}

#[test]
fn an_entry_at_index_0_alone() {
    let mut one: MapleTree<u64, Number, Global> = MapleTree::new_in(Global);
    one.insert(0, 7).unwrap();
    let map = CowMapleTree::from_exclusive(one).unwrap();
    map.check().unwrap();
    assert_eq!(map.snapshot().iter().collect::<Vec<_>>(), [(0..=0, 7)]);
    let empty: CowMapleTree<u64, Number> =
        CowMapleTree::from_exclusive(MapleTree::new_in(Global)).unwrap();
    assert!(empty.is_empty() && empty.snapshot().into_exclusive().unwrap().is_empty());
}
