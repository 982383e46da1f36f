//! A pool of nodes that belongs to one structure.

use core::alloc::Layout;
use core::ptr::NonNull;

use spin::Mutex;

use crate::slabs::Slabs;
use crate::{Fork, Global, NodeAlloc};

/// Nodes of `SIZE` bytes cut out of slabs, which grow with the number of nodes, for one structure.
///
/// A node that is given back is the next to be taken. Slabs are given back to their source, `A`, when all nodes are at once
/// ([`deallocate_all`](NodeAlloc::deallocate_all)) or the pool is dropped, and not before; what is in nodes is not dropped with them. Up to an eighth of the
/// nodes in slabs (or 15 nodes, and no more than 32 KiB) has not been used yet, so that a few nodes may take three times what they need.
/// Runs are cut from what was never used, unless enough nodes have been given back. A layout other than [`BLOCK`](Pool::BLOCK) is passed on to the source, and
/// is none of the pool's nodes.
///
/// Threads may share it, if they may share its source. It takes and gives back under a lock, though, which an interrupt handler must not wait for: see
/// [`SharedPool`](crate::SharedPool). The source is called under that lock, and must not use the pool.
///
/// `SIZE` is a multiple of two words; others do not compile.
///
/// ```
/// use samara_slab::{Counted, Global, NodeAlloc, Pool};
///
/// let slabs = Counted::new(Global);
/// let pool: Pool<&Counted<Global>, 64> = Pool::new_in(&slabs);
/// let nodes = [(); 100].map(|()| pool.allocate(Pool::<Global, 64>::BLOCK));
/// assert!(nodes.iter().all(Option::is_some) && slabs.live() < 15);
/// drop(pool);
/// assert_eq!(slabs.live(), 0);
/// ```
pub struct Pool<A: NodeAlloc, const SIZE: usize> {
    /// The lock is never contended by a structure of one writer, which has it exclusively.
    slabs: Mutex<Slabs<SIZE>>,
    source: A,
}

pool!(Pool, NodeAlloc, pool => pool.slabs.lock().bytes());

impl<A: NodeAlloc, const SIZE: usize> Pool<A, SIZE> {
    /// An empty pool of slabs from `source`. Allocates nothing.
    #[must_use]
    pub const fn new_in(source: A) -> Self {
        Self {
            slabs: Mutex::new(Slabs::new()),
            source,
        }
    }
}

// SAFETY:
// * Slabs cut each node out once, and hand out again only what was given back.
// * A slab is not moved with the pool.
// * Only nodes that were given back are written to.
unsafe impl<A: NodeAlloc, const SIZE: usize> NodeAlloc for Pool<A, SIZE> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK {
            return self.source.allocate(layout);
        }
        self.slabs.lock().take(&self.source)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout != Self::BLOCK {
            // SAFETY: the caller's promise; `allocate` got it there.
            return unsafe { self.source.deallocate(block, layout) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.slabs.lock().put(block) }
    }

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK || count == 0 {
            return None;
        }
        self.slabs.lock().take_run(count, &self.source)
    }

    #[inline]
    fn allocate_run_mut(&mut self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK || count == 0 {
            return None;
        }
        self.slabs.get_mut().take_run(count, &self.source)
    }

    unsafe fn deallocate_all(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.slabs.lock().free_all(&self.source) };
        true
    }
}

impl<A: NodeAlloc, const SIZE: usize> Drop for Pool<A, SIZE> {
    fn drop(&mut self) {
        // SAFETY: nodes are memory until the pool is dropped, and no longer: nobody uses one any more.
        unsafe { self.slabs.get_mut().free_all(&self.source) };
    }
}
