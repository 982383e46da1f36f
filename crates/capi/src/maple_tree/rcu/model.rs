//! All interleavings, up to a bound of preemptions, of threads that retire nodes, settle, and read.
//! The model checker also tries the reorderings that the memory model permits.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml -p samara-capi-loom`
//!
//! There is no tree: a node can be found while a flag says that it is linked. The checker watches
//! its content. It reports a node that is freed concurrently with a reader, or whose freeing is not
//! ordered after one.

#[path = "pending.rs"]
mod pending;
#[path = "periods.rs"]
mod periods;

use core::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use periods::Periods;

/// A stand-in for a node.
struct Node {
    next: UnsafeCell<*mut u8>,
    /// 1 until the node is freed.
    content: UnsafeCell<u32>,
}

// SAFETY: the checker reports concurrent accesses.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    fn new() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
            content: UnsafeCell::new(1),
        }
    }

    fn block(&self) -> NonNull<u8> {
        NonNull::from(self).cast()
    }

    /// Returns the node of a block.
    ///
    /// # Safety
    ///
    /// The block is that of a node.
    unsafe fn of<'a>(block: NonNull<u8>) -> &'a Self {
        // SAFETY: the caller's promise. Nodes exist until the end of a run.
        unsafe { block.cast().as_ref() }
    }

    fn content(&self) -> u32 {
        // SAFETY: the checker reports it if the node is freed concurrently.
        self.content.with(|content| unsafe { *content })
    }
}

/// Links a node to the next one.
///
/// # Safety
///
/// The block is that of a node.
unsafe fn chain(block: NonNull<u8>, next: Option<NonNull<u8>>) {
    // SAFETY: the caller's promise.
    let node = unsafe { Node::of(block) };
    node.next.with_mut(|link| {
        // SAFETY: the checker reports concurrent accesses.
        unsafe { *link = next.map_or(ptr::null_mut(), NonNull::as_ptr) }
    });
}

/// Frees a chain of nodes, and returns their number.
///
/// # Safety
///
/// The blocks are those of nodes.
unsafe fn free_chain(newest: Option<NonNull<u8>>) -> usize {
    let (mut next, mut count) = (newest, 0);
    while let Some(block) = next {
        // SAFETY: the caller's promise.
        let node = unsafe { Node::of(block) };
        // SAFETY: the checker reports concurrent accesses.
        next = node.next.with(|link| NonNull::new(unsafe { *link }));
        node.content.with_mut(|content| {
            // SAFETY: as above.
            unsafe {
                assert_eq!(*content, 1, "freed twice");
                *content = 0;
            }
        });
        count += 1;
    }
    count
}

/// The state that the threads of a model share.
struct World {
    periods: Periods,
    nodes: Vec<Node>,
    linked: Vec<AtomicBool>,
}

impl World {
    fn new(nodes: usize) -> Arc<Self> {
        Arc::new(Self {
            periods: Periods::new(),
            nodes: (0..nodes).map(|_| Node::new()).collect(),
            linked: (0..nodes).map(|_| AtomicBool::new(true)).collect(),
        })
    }

    /// Unlinks a node and retires it, as a write does.
    fn retire(&self, node: usize) {
        self.linked[node].store(false, Ordering::Relaxed);
        let block = self.nodes[node].block();
        self.periods.retire(block, block, 1);
    }

    /// Reads a node if it can be found.
    fn read(&self, node: usize) {
        let guard = self.periods.enter();
        if self.linked[node].load(Ordering::Relaxed) {
            assert_eq!(self.nodes[node].content(), 1, "freed too early");
        }
        self.periods.leave(guard);
    }

    fn freed(&self) -> usize {
        self.nodes.iter().filter(|node| node.content() == 0).count()
    }
}

/// Tries all runs of these threads. At the end every node must have been freed.
fn all_are_freed(nodes: usize, threads: &'static [fn(&World)]) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let world = World::new(nodes);
        let (here, others) = threads.split_first().unwrap();
        let others: Vec<_> = others
            .iter()
            .map(|run| {
                let world = world.clone();
                thread::spawn(move || run(&world))
            })
            .collect();
        here(&world);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(world.freed(), nodes, "nodes wait for ever");
    });
}

/// A thread settles while readers are inside. The last reader frees the node.
#[test]
fn two_readers_leave_together() {
    all_are_freed(
        1,
        &[
            |world| {
                world.retire(0);
                world.periods.settle();
            },
            |world| world.read(0),
            |world| world.read(0),
        ],
    );
}

/// Two trees are destroyed at once. A node that one retires while the other finds nothing left is
/// not forgotten.
#[test]
fn two_trees_settle_together() {
    all_are_freed(
        2,
        &[
            |world| {
                world.retire(0);
                world.periods.settle();
            },
            |world| {
                world.retire(1);
                world.periods.settle();
            },
        ],
    );
}

/// As above, with a reader.
#[test]
fn two_trees_settle_beside_a_reader() {
    all_are_freed(
        2,
        &[
            |world| {
                world.retire(0);
                world.periods.settle();
            },
            |world| {
                world.retire(1);
                world.periods.settle();
            },
            |world| world.read(1),
        ],
    );
}

/// A batch is full before a tree is destroyed. Its grace period began while no reader checked the
/// flag.
#[test]
fn a_tree_settles_after_a_batch() {
    all_are_freed(
        3,
        &[
            |world| {
                world.retire(0);
                world.retire(1);
                world.retire(2);
                world.periods.settle();
            },
            |world| {
                world.read(0);
                world.read(2);
            },
        ],
    );
}
