//! All interleavings, up to a bound of preemptions, of one writer and one reader, with the memory
//! model's reorderings, at fanout 4.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml --test sync`
//!
//! The checker watches each word of a node. It reports a pivot that is read without being ordered
//! after its write. Freed nodes are overwritten, so that a reader that is still in one fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::ops::RangeInclusive;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use maple_tree::{Fanout, MapleTree, Reclaim, SyncMapleTree, Waiting};

mod looming;

use looming::{
    Entries, Poison, Tree, Write, at, end_of_run, fill, fill_sparse, go_through, look_up, model,
    model_of,
};

#[test]
fn first_entry() {
    model(
        false,
        |_| {},
        |w| w.insert_range(0..=0, 7).unwrap(),
        look_up::<0>,
    );
    model(
        false,
        |_| {},
        |w| w.insert_range(3..=5, 7).unwrap(),
        look_up::<4>,
    );
}

/// Readers are spread over several counters. This reader uses another one than the reader before.
#[test]
fn spread_readers() {
    let new = || {
        let tree = Tree::new_in(Waiting::new(), Poison);
        assert!(tree.reclaim().spread());
        tree
    };
    let replace: fn(&mut Write<'_>) = |w| {
        w.store_range(0..=1, 9).unwrap();
        w.store_range(4..=5, 8).unwrap();
    };
    model_of(new, fill::<3>, replace, look_up::<1>);
    model_of(new, fill::<3>, |w| drop(w.erase_range(0..=9)), look_up::<4>);
}

#[test]
fn new_root_over_a_single_entry() {
    model(
        false,
        |w| w.insert_range(0..=0, 1).unwrap(),
        |w| w.insert_range(5..=5, 2).unwrap(),
        look_up::<0>,
    );
}

#[test]
fn exact_fit() {
    model(
        false,
        fill::<2>,
        |w| w.store_range(0..=1, 9).unwrap(),
        look_up::<1>,
    );
}

#[test]
fn append() {
    model(
        false,
        fill::<2>,
        |w| w.insert_range(4..=5, 9).unwrap(),
        look_up::<4>,
    );
    model(
        false,
        fill::<2>,
        |w| w.insert_range(4..=5, 9).unwrap(),
        go_through,
    );
}

/// An entry and both its neighbours become one.
#[test]
fn coalescing() {
    for gaps in [false, true] {
        model(
            gaps,
            fill::<5>,
            |w| {
                w.store_range_coalescing(4..=5, 9, |_, _| true).unwrap();
            },
            look_up::<3>,
        );
    }
    model(
        false,
        fill::<5>,
        |w| {
            w.store_range_coalescing(4..=5, 9, |_, _| true).unwrap();
        },
        go_through,
    );
}

/// A map is moved into another, over several of its entries. Two look-ups find all of it or
/// nothing.
#[test]
fn append_a_map() {
    fn append(w: &mut Write<'_>) {
        let mut other: MapleTree<u32, u32, Poison, Fanout<4>> = MapleTree::new_in(Poison);
        other.try_extend([(3..=4, 20), (6..=9, 21)]).unwrap();
        w.append(&mut other).unwrap();
        std::mem::forget(other);
    }
    fn both_places(tree: &Tree, before: &Entries, after: &Entries) {
        let reader = tree.read();
        let (first, second) = (reader.get_range(3), reader.get_range(7));
        assert!(second == at(after, 7) || second == at(before, 7));
        if first == at(after, 3) {
            assert_eq!(second, at(after, 7));
        } else {
            assert_eq!(first, at(before, 3));
        }
    }
    model(false, fill::<5>, append, both_places);
    model(false, fill::<3>, append, go_through);
}

#[test]
fn split() {
    model(
        false,
        fill::<3>,
        |w| w.insert_range(6..=7, 9).unwrap(),
        look_up::<2>,
    );
    model(
        false,
        fill::<3>,
        |w| w.insert_range(6..=7, 9).unwrap(),
        go_through,
    );
}

#[test]
fn split_with_gaps() {
    model(
        true,
        fill::<6>,
        |w| w.insert_range(12..=13, 9).unwrap(),
        look_up::<10>,
    );
}

#[test]
fn rebalance() {
    model(
        false,
        fill::<6>,
        |w| w.erase_range(0..=5).unwrap(),
        look_up::<7>,
    );
    model(
        false,
        fill::<6>,
        |w| w.erase_range(2..=5).unwrap(),
        go_through,
    );
}

#[test]
fn spanning_store() {
    model(
        false,
        fill::<6>,
        |w| w.store_range(3..=8, 9).unwrap(),
        look_up::<5>,
    );
    model(
        false,
        fill::<6>,
        |w| w.store_range(3..=8, 9).unwrap(),
        go_through,
    );
}

#[test]
fn spanning_store_with_gaps() {
    model(
        true,
        fill_sparse::<5>,
        |w| w.store_range(3..=14, 9).unwrap(),
        look_up::<8>,
    );
}

/// A reader never sees a gap where one entry replaces others.
#[test]
fn no_hole_while_replacing() {
    fn covered(tree: &Tree, _: &Entries, _: &Entries) {
        let reader = tree.read();
        for key in [3, 6] {
            assert!(reader.contains(key));
        }
        let seen: Entries = reader.iter().collect();
        for pair in seen.windows(2) {
            assert!(
                *pair[1].0.start() <= pair[0].0.end() + 1,
                "a hole in {seen:?}"
            );
        }
    }
    model(
        false,
        fill::<5>,
        |w| w.store_range(2..=7, 9).unwrap(),
        covered,
    );
}

/// An entry grows over its neighbour, as a stack does over the mapping below it. The neighbour's
/// part changes over at once.
#[test]
fn growth_up_to_a_neighbour() {
    fn grow(w: &mut Write<'_>) {
        assert_eq!(w.grow(8, 3..=9), Ok(true));
    }
    model(false, fill::<5>, grow, look_up::<5>);
    model(false, fill::<5>, grow, go_through);
}

/// The tree loses a level, and then all of them.
#[test]
fn clear() {
    model(false, fill::<4>, |w| w.clear(), look_up::<5>);
    model(
        false,
        fill::<4>,
        |w| w.erase_range(2..).unwrap(),
        look_up::<1>,
    );
}

/// The reader continues in a leaf that has been replaced, and looks up its position again.
#[test]
fn two_changes_under_an_iterator() {
    fn twice(w: &mut Write<'_>) {
        w.store_range(0..=1, 8).unwrap();
        w.store_range(2..=4, 9).unwrap();
    }
    fn ordered(tree: &Tree, _: &Entries, _: &Entries) {
        let reader = tree.read();
        let seen: Entries = reader.iter().collect();
        let old = seen.iter().any(|e| e.1 == 0);
        // Values are published in order: a reader that sees the second change at the front also
        // sees the first.
        assert!(seen.len() >= 3, "{seen:?}");
        assert!(old || seen.iter().any(|e| e.1 == 8), "{seen:?}");
    }
    model(false, fill::<3>, twice, ordered);
}

/// A reclaimer that frees nothing. A writer that waited for the reader would not finish before the
/// reader's next step.
struct Never;

// SAFETY: memory that is never freed is not freed too early.
unsafe impl Reclaim for Never {
    type Guard<'a> = ();

    fn enter(&self) {}

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        std::mem::forget(free);
    }
}

type NeverTree = SyncMapleTree<u32, u32, Never, Poison, spin::Mutex<()>, Fanout<4>>;

/// Takes the second step of an iterator over a full leaf. If the store was complete before it, the
/// step returns `second`.
fn step_after(range: RangeInclusive<u32>, second: (RangeInclusive<u32>, u32)) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let tree = Arc::new(NeverTree::new_in(Never, Poison));
        // SAFETY: this is the only writing thread.
        let mut w = unsafe { tree.write_locked() };
        for i in 0..3 {
            w.insert_range(i * 2..=i * 2 + 1, i).unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let reader = {
            let (tree, over, second) = (tree.clone(), over.clone(), second.clone());
            thread::spawn(move || {
                let reader = tree.read();
                let mut iter = reader.iter();
                assert!(iter.next().is_some());
                let over = over.load(Ordering::Acquire);
                let seen = iter.next();
                assert!(!over || seen == Some(second), "{seen:?}");
            })
        };
        w.store_range(range.clone(), 9).unwrap();
        over.store(true, Ordering::Release);
        drop(w);
        reader.join().unwrap();
        std::mem::forget(tree);
        end_of_run();
    });
}

/// An iterator that stays in a leaf notices that the leaf has been replaced: a step shows every
/// write that was complete before it.
#[test]
fn an_iterator_sees_finished_writes() {
    step_after(2..=4, (2..=4, 9));
}

/// As above, with a leaf that is too small for the result of the store, so that two take its place.
#[test]
fn an_iterator_sees_finished_splits() {
    step_after(2..=2, (2..=2, 9));
}

/// Nodes are overwritten as soon as a poll reports the end of a grace period. Each write begins
/// one. The reader enters, leaves, and enters again. The writing thread reads, too, so that there
/// are two slots.
#[cfg(feature = "rcu")]
#[test]
fn rcu_in_user_space() {
    use maple_tree::UserRcu;

    type RcuTree = SyncMapleTree<u32, u32, UserRcu, Poison, spin::Mutex<()>, Fanout<4>>;

    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(|| {
        let tree = Arc::new(RcuTree::new_in(UserRcu::new(), Poison));
        // SAFETY: this is the only writing thread.
        let mut w = unsafe { tree.write_locked() };
        for i in 0..3 {
            w.insert_range(i * 2..=i * 2 + 1, i).unwrap();
        }
        assert_eq!(tree.read().get(0), Some(0));
        let reader = {
            let tree = tree.clone();
            thread::spawn(move || {
                let mut newest = 1;
                for _ in 0..2 {
                    let seen = tree.read().get(2);
                    let seen = seen.unwrap();
                    assert!(seen >= newest && [1, 8, 9].contains(&seen), "{seen}");
                    newest = seen;
                }
            })
        };
        w.store_range(2..=4, 8).unwrap();
        w.store_range(1..=2, 9).unwrap();
        drop(w);
        reader.join().unwrap();
        std::mem::forget(tree);
        end_of_run();
    });
}
