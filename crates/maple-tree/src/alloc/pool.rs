//! A pool of nodes that belongs to one tree.

use core::alloc::Layout;
use core::ptr::NonNull;

use spin::Mutex;

use crate::alloc::slabs::Slabs;
use crate::alloc::{Fork, Global, NodeAlloc};
use crate::node::LAYOUT;

/// Nodes cut out of slabs, which grow with the number of nodes: the allocator of a [`MapleTree`](crate::MapleTree) unless
/// another is named.
///
/// A node that is given back is the next to be taken. Slabs are given back to their source, `A`, all at once when the
/// tree is cleared or dropped, and not before. A tree that has one node takes 512 bytes; one of many takes up to an eighth
/// (at least 15 nodes, and no more than 32 KiB) in nodes that it has not used yet.
///
/// ```
/// use maple_tree::MapleTree;
/// use maple_tree::alloc::{Counted, Global, Pool};
///
/// let slabs = Counted::new(Global);
/// let mut tree: MapleTree<u64, u32, Pool<&Counted<Global>>> = MapleTree::new_in(Pool::new_in(&slabs));
/// for i in 0..1000 {
///     tree.insert(i, 7)?;
/// }
/// assert!(tree.stats().nodes() > 60 && slabs.live() < 20);
/// drop(tree);
/// assert_eq!(slabs.live(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<A: NodeAlloc = Global> {
    /// The lock is never contended by a tree: its writer has it exclusively.
    slabs: Mutex<Slabs>,
    source: A,
}

pool!(Pool, NodeAlloc, pool => pool.slabs.lock().bytes());

impl<A: NodeAlloc> Pool<A> {
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
unsafe impl<A: NodeAlloc> NodeAlloc for Pool<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout != LAYOUT {
            return self.source.allocate(layout);
        }
        self.slabs.lock().take(&self.source)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout != LAYOUT {
            // SAFETY: the caller's promise; `allocate` got it there.
            return unsafe { self.source.deallocate(block, layout) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.slabs.lock().put(block) }
    }

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != LAYOUT || count == 0 {
            return None;
        }
        self.slabs.lock().take_run(count, &self.source)
    }

    #[inline]
    fn allocate_run_mut(&mut self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != LAYOUT || count == 0 {
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

impl<A: NodeAlloc> Drop for Pool<A> {
    fn drop(&mut self) {
        // SAFETY: whoever has a node borrows the pool, or owns it and is being dropped with it.
        unsafe { self.slabs.get_mut().free_all(&self.source) };
    }
}
