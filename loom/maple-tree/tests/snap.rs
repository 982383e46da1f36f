//! All interleavings, up to a bound of preemptions, of two maps that share their nodes, each on a
//! thread of its own: counting, copying, changing in place and freeing.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml --test snap`
//!
//! The checker watches each word of a node. It reports a pivot that one side writes while the other
//! may read it. Freed nodes are overwritten, and counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;

use loom::thread;
use maple_tree::alloc::NodeAlloc;
use maple_tree::{CowMapleTree, Fanout, SharedAlloc};

thread_local! {
    /// All blocks of one run of a model, and `true` for those in use. The checker's threads are
    /// coroutines on one thread.
    static BLOCKS: RefCell<Vec<(NonNull<u8>, Layout, bool)>> = const { RefCell::new(Vec::new()) };
}

/// An allocator that overwrites freed blocks, and does not reuse them in the same run.
#[derive(Clone, Copy)]
struct Poison;

// SAFETY: the memory comes from the global allocator, and is freed to it when the run is over.
unsafe impl NodeAlloc for Poison {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        BLOCKS.with_borrow_mut(|blocks| blocks.push((block, layout, true)));
        Some(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        BLOCKS.with_borrow_mut(|blocks| {
            let known = blocks.iter_mut().find(|known| known.0 == block).unwrap();
            assert!(known.2, "a node was given back twice");
            known.2 = false;
        });
        // SAFETY: the block has this layout, and nothing should read it any more.
        unsafe { block.write_bytes(0xaa, layout.size()) };
    }
}

// SAFETY: it has no state of its own.
unsafe impl SharedAlloc for Poison {}

fn end_of_run() {
    for (block, layout, in_use) in BLOCKS.take() {
        // SAFETY: it came from `allocate` with this layout, and the run is over.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        assert!(!in_use, "a node leaked");
    }
}

type Map = CowMapleTree<u32, u32, Poison, Fanout<4>>;

fn model(entries: u32, one: fn(Map), two: fn(Map)) {
    // Without any bound the models take minutes.
    explore(2, move || {
        let (map, other) = two_maps(entries);
        let side = thread::spawn(move || two(other));
        one(map);
        side.join().unwrap();
    });
}

/// Runs a program in every interleaving with this many preemptions, unless `LOOM_MAX_PREEMPTIONS`
/// sets another bound.
fn explore(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(move || {
        run();
        end_of_run();
    });
}

/// Returns a map with entries, and a snapshot of it.
fn two_maps(entries: u32) -> (Map, Map) {
    let mut map = Map::with_gaps_in(Poison);
    for i in 0..entries {
        map.insert_range(i * 4..i * 4 + 2, i).unwrap();
    }
    let other = map.snapshot();
    (map, other)
}

fn holds(map: &Map, key: u32, value: Option<u32>) {
    assert_eq!(map.get(key), value);
}

/// One side writes twice. The first write copies, unless the other side is gone by then. The second
/// write is in place. The other side reads and is dropped.
#[test]
fn one_writes_the_other_reads_and_goes() {
    model(
        5,
        |mut map| {
            map.store_range(4..6, 100).unwrap();
            map.erase_range(5..6).unwrap();
            holds(&map, 4, Some(100));
            holds(&map, 5, None);
        },
        |map| {
            holds(&map, 5, Some(1));
            drop(map);
        },
    );
}

/// Both sides write the same leaf, which the first one copies.
#[test]
fn both_write() {
    model(
        2,
        |mut map| {
            map.store_range(4..6, 100).unwrap();
            holds(&map, 5, Some(100));
        },
        |mut map| {
            map.store_range(4..5, 200).unwrap();
            holds(&map, 4, Some(200));
            holds(&map, 5, Some(1));
        },
    );
}

/// Snapshots of a snapshot. Any of them may be the last to free the nodes.
#[test]
fn who_goes_last_frees() {
    model(
        2,
        |map| {
            let again = map.snapshot();
            drop(map);
            holds(&again, 4, Some(1));
        },
        |mut map| {
            let before = map.snapshot();
            map.clear();
            holds(&before, 0, Some(0));
        },
    );
}

/// One side checks each node for a count, and reads its address, while the other copies nodes above
/// and begins to count those below. A thread that reads the word twice, once for each question, may
/// take the count for an address.
#[test]
fn one_checks_what_the_other_begins_to_count() {
    explore(2, || {
        let (mut map, other) = two_maps(3);
        // The checker first tries what continues on this thread. For an exchange whose word is
        // loaded just before it, the checker does not see that the exchange could come between two
        // earlier loads on the other side.
        let side = thread::spawn(move || {
            other.check().unwrap();
            other
        });
        assert_eq!(map.replace(0, 100), Ok(0));
        // Both are dropped here, without concurrency.
        drop((side.join().unwrap(), map));
    });
}

/// One side removes too much from the last leaf, which is alone under its parent, and checks if it
/// owns the leaf before. The other side copies the node above that leaf and so begins to count it.
/// A thread that reads its first word twice may take the count for an address.
#[test]
fn one_asks_for_a_neighbour_that_the_other_begins_to_count() {
    // There are three levels, so that this takes long. The failure needs only one preemption.
    explore(1, || {
        let (mut map, mut other) = two_maps(9);
        // The path to the last leaf has been copied before.
        other.store_range(36.., 100).unwrap();
        // As above: the checker first tries what continues here.
        let side = thread::spawn(move || {
            other.store_range(32.., 200).unwrap();
            other
        });
        assert_eq!(map.replace(0, 100), Ok(0));
        let other = side.join().unwrap();
        holds(&other, 40, Some(200));
        holds(&other, 0, Some(0));
        drop((other, map));
    });
}
