//! Trees over pools: what they cost, and that failures and leaks show through them.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use maple_tree::alloc::{Counted, Global, NodeAlloc, Pool, SharedPool};
use maple_tree::{Fanout, MapleTree, SyncMapleTree, Waiting};

/// A number that is stored in place.
#[cfg(target_pointer_width = "64")]
type Number = u32;
/// A number that is stored in place.
#[cfg(not(target_pointer_width = "64"))]
type Number = u16;

const MANY: u64 = if cfg!(miri) { 60 } else { 20_000 };

#[test]
fn a_tiny_tree_stays_tiny_and_a_large_one_wastes_little() {
    let mut tree: MapleTree<u64, Number> = MapleTree::new();
    assert_eq!(tree.allocator().bytes(), 0);
    tree.insert(5, 1).unwrap();
    assert_eq!(tree.allocator().bytes(), 512);
    for i in 0..MANY {
        tree.insert(10 + i, 1).unwrap();
        let (nodes, bytes) = (tree.stats().nodes(), tree.allocator().bytes());
        // Fifteen nodes that are not used yet, or an eighth of all; a sixteenth and six slabs' heads.
        let unused = (nodes / 8).max(15).min(nodes + 2);
        let most = nodes + unused + (nodes + unused) / 16 + 6;
        assert!(bytes <= most * 256, "{bytes} for {nodes} nodes");
        if i > 2000 {
            break;
        }
    }
    tree.clear();
    assert_eq!(tree.allocator().bytes(), 0);
    tree.insert(5, 1).unwrap();
    tree.check().unwrap();
}

/// A node that is given back is the next to be taken: to and fro costs no memory.
#[test]
fn nodes_are_used_again() {
    let mut tree: MapleTree<u64, Number, Pool, Fanout<4>> = MapleTree::with_gaps_in(Pool::new());
    let mut most = 0;
    for round in 0..6 {
        for i in 0..MANY / 10 {
            tree.insert(i * 2, 1).unwrap();
        }
        for i in 0..MANY / 10 {
            tree.remove(i * 2).unwrap();
        }
        tree.check().unwrap();
        if round == 0 {
            most = tree.allocator().bytes();
        }
    }
    assert_eq!(tree.allocator().bytes(), most);
}

#[test]
fn values_are_dropped_with_a_pool() {
    let value = Arc::new(7);
    let mut tree: MapleTree<u64, Arc<i32>> = MapleTree::new();
    for i in 0..500.min(MANY) {
        tree.insert(i, value.clone()).unwrap();
    }
    let copy = tree
        .try_clone_with(|_, value| Ok(Some(Arc::clone(&value))))
        .unwrap();
    drop(tree);
    assert_eq!(Arc::strong_count(&value), 1 + 500.min(MANY) as usize);
    drop(copy);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Refuses slabs after the next `left` ones.
struct Countdown {
    inner: Counted<Global>,
    left: Cell<usize>,
}

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.left.set(self.left.get().checked_sub(1)?);
        self.inner.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

#[test]
fn a_slab_that_cannot_be_had_is_a_clean_failure() {
    let source = Countdown {
        inner: Counted::new(Global),
        left: Cell::new(0),
    };
    let mut tree: MapleTree<u64, Number, _, Fanout<4>> = MapleTree::new_in(Pool::new_in(&source));
    let mut failures = 0;
    for i in 0..MANY.min(3000) {
        let key = i * 7919 % 30_011;
        while tree.insert(key, 3).is_err() {
            failures += 1;
            assert_eq!(tree.len() as u64, i);
            tree.check().unwrap();
            source.left.set(1);
        }
    }
    assert!(failures > 3);
    assert_eq!(source.inner.allocated(), failures);
    drop(tree);
    assert_eq!(source.inner.live(), 0);
}

#[test]
fn a_tree_in_a_static() {
    static IDS: SyncMapleTree<u64, Number, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    static ALONE: Mutex<MapleTree<u64, Number>> = Mutex::new(MapleTree::new());
    IDS.write().insert_range(3..5, 1).unwrap();
    assert_eq!(IDS.read().get(4), Some(1));
    ALONE.lock().unwrap().insert(1, 2).unwrap();
    IDS.write().clear();
    ALONE.lock().unwrap().clear();
}

/// A tree and its duplicates on several threads, over one pool.
#[test]
fn trees_of_several_threads_over_one_pool() {
    let slabs = Arc::new(Counted::new(Global));
    let pool = SharedPool::new_in(slabs.clone());
    drop(MapleTree::<u64, Number, _>::new_in(pool.clone()));
    std::thread::scope(|s| {
        for t in 0..3 {
            let pool = pool.clone();
            s.spawn(move || {
                let tree: SyncMapleTree<u64, Box<u64>, Waiting, _, spin::Mutex<()>, Fanout<4>> =
                    SyncMapleTree::with_gaps_in(Waiting::new(), pool);
                for i in 0..MANY / 4 {
                    let key = 1 + (i + t) * 7919 % 997;
                    let _ = tree.write().store_range(key..key + 3, Box::new(key));
                    if i % 3 == 0 {
                        tree.write().remove(key).unwrap();
                    }
                }
                tree.write().check().unwrap();
            });
        }
    });
    drop(pool);
    assert_eq!(slabs.live(), 0);
}
