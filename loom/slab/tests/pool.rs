//! All interleavings, up to a bound of preemptions, of threads that allocate and free nodes of a
//! shared pool and drop their handles.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml -p samara-slab-loom`

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use samara_slab::{Global, NodeAlloc};

type SharedPool<A> = samara_slab::SharedPool<A, 64>;
const NODE: Layout = SharedPool::<Global>::BLOCK;

/// The users of a pool's nodes. The checker reports a second user of a node that is not ordered
/// after the first.
struct Users(Vec<(usize, UnsafeCell<u32>)>);

// SAFETY: the test checks that no node has two users at once.
unsafe impl Sync for Users {}

impl Users {
    fn enter(&self, node: NonNull<u8>) {
        if let Some((_, users)) = self.0.iter().find(|u| u.0 == node.addr().get()) {
            // SAFETY: the checker reports a concurrent access.
            users.with_mut(|n| unsafe {
                assert_eq!(*n, 0, "a node has two users");
                *n = 1;
            });
        }
    }

    fn leave(&self, node: NonNull<u8>) {
        if let Some((_, users)) = self.0.iter().find(|u| u.0 == node.addr().get()) {
            // SAFETY: the checker reports a concurrent access.
            users.with_mut(|n| unsafe { *n = 0 });
        }
    }
}

thread_local! {
    /// The users in one run of a model. The checker's threads are coroutines on one thread.
    static USERS: RefCell<Arc<Users>> = RefCell::new(Arc::new(Users(Vec::new())));
}

/// An allocator of slabs. The checker reports a user of a node that is not ordered before its slab
/// is freed.
#[derive(Clone)]
struct Slabs;

// SAFETY: the memory comes from the global allocator.
unsafe impl NodeAlloc for Slabs {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let users = USERS.with_borrow(Arc::clone);
        let freed = block.addr().get()..block.addr().get() + layout.size();
        for (_, user) in users.0.iter().filter(|user| freed.contains(&user.0)) {
            user.with_mut(|_| ());
        }
        // SAFETY: the caller's promise.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// Returns a pool whose first two slabs are fully allocated, and the nodes, which are in use.
fn exhausted_pool() -> (SharedPool<Slabs>, Vec<NonNull<u8>>, Arc<Users>) {
    let pool = SharedPool::new_in(Slabs);
    let nodes: Vec<NonNull<u8>> = (0..4).map(|_| pool.allocate(NODE).unwrap()).collect();
    let users = nodes.iter().map(|n| (n.addr().get(), UnsafeCell::new(1)));
    let users = Arc::new(Users(users.collect()));
    USERS.set(users.clone());
    (pool, nodes, users)
}

/// Spawns a thread that frees nodes and then drops its handle.
fn spawn_freeing(
    pool: &SharedPool<Slabs>,
    nodes: &[NonNull<u8>],
    users: &Arc<Users>,
) -> thread::JoinHandle<()> {
    let (pool, users) = (pool.clone(), users.clone());
    let nodes: Vec<usize> = nodes
        .iter()
        .map(|n| n.as_ptr().expose_provenance())
        .collect();
    thread::spawn(move || {
        for node in nodes {
            let node = NonNull::new(std::ptr::with_exposed_provenance_mut(node)).unwrap();
            users.leave(node);
            // SAFETY: it came from the pool, and this thread does not use it again.
            unsafe { pool.deallocate(node, NODE) };
        }
    })
}

fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// One thread frees nodes and its handle while another allocates and frees. The last handle frees
/// the slabs, whichever it is.
#[test]
fn one_frees_while_another_allocates() {
    explore(|| {
        let (pool, nodes, users) = exhausted_pool();
        let there = spawn_freeing(&pool, &nodes[..2], &users);
        users.leave(nodes[2]);
        // SAFETY: as above.
        unsafe { pool.deallocate(nodes[2], NODE) };
        for _ in 0..2 {
            users.enter(pool.allocate(NODE).unwrap());
        }
        drop(pool);
        there.join().unwrap();
    });
}

/// The only handle frees all nodes at once. What other threads did with nodes before they dropped
/// their handles comes before.
#[test]
fn sole_handle_frees_all() {
    explore(|| {
        let (pool, nodes, users) = exhausted_pool();
        let there = spawn_freeing(&pool, &nodes[..1], &users);
        for &node in &nodes[1..] {
            users.leave(node);
        }
        // SAFETY: no node of this handle is in use any more.
        let _ = unsafe { pool.deallocate_all() };
        there.join().unwrap();
        drop(pool);
    });
}

/// Two threads allocate the first nodes through one handle. One pool is created, and that of the
/// slower thread is freed.
#[test]
fn two_make_the_pool() {
    explore(|| {
        USERS.set(Arc::new(Users(Vec::new())));
        let pool = Arc::new(SharedPool::new_in(Slabs));
        let there = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.allocate(NODE).unwrap().as_ptr().expose_provenance()
        });
        let here = pool.allocate(NODE).unwrap();
        let there = there.join().unwrap();
        assert_ne!(here.addr().get(), there);
        // A slab of one node and one of three, each with its header.
        assert_eq!(pool.bytes(), 6 * NODE.size());
    });
}
