//! Where nodes come from: a trait whose allocations may fail, and ready implementations.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A source of memory for nodes.
///
/// Every allocation may fail; a tree then reports the failure and stays as it was.
///
/// # Safety
///
/// * [`allocate`](NodeAlloc::allocate) returns memory of at least `layout.size()` bytes aligned to
///   `layout.align()` that nobody else uses until it is given back.
/// * Memory stays valid when the allocator value is moved.
/// * An allocator neither reads nor writes a block while it is allocated.
pub unsafe trait NodeAlloc {
    /// Memory for one node, or `None` if there is none at the moment.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes a node's memory back.
    ///
    /// # Safety
    ///
    /// `block` came from [`allocate`](NodeAlloc::allocate) of this allocator (or one that is
    /// interchangeable with it) with the same `layout`, and nobody uses it any more.
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout);
}

/// The program's global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

// SAFETY: the global allocator keeps the promises of `GlobalAlloc`, which are those of this trait;
// the value has no state, so that all of them are interchangeable.
unsafe impl NodeAlloc for Global {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        debug_assert!(layout.size() != 0);
        // SAFETY: the layout of a node is not of size zero.
        NonNull::new(unsafe { std_alloc::alloc::alloc(layout) })
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller promises that `block` came from `allocate` above with this layout.
        unsafe { std_alloc::alloc::dealloc(block.as_ptr(), layout) }
    }
}

// SAFETY: everything is passed on to an allocator that keeps the promises.
unsafe impl<A: NodeAlloc + ?Sized> NodeAlloc for &A {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        (**self).allocate(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).deallocate(block, layout) }
    }
}

// SAFETY: everything is passed on to an allocator that keeps the promises.
unsafe impl<A: NodeAlloc + ?Sized> NodeAlloc for std_alloc::sync::Arc<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        (**self).allocate(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).deallocate(block, layout) }
    }
}

/// An allocator that counts what passes through it, to show that nothing leaks and what a change costs.
///
/// ```
/// use maple_tree::MapleTree;
/// use maple_tree::alloc::{Counted, Global};
///
/// let nodes = Counted::new(Global);
/// let mut tree: MapleTree<u64, u32, _> = MapleTree::new_in(&nodes);
/// tree.insert_range(5..10, 1)?;
/// assert_eq!(nodes.live(), 1);
/// drop(tree);
/// assert_eq!((nodes.live(), nodes.allocated()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Counted<A> {
    inner: A,
    allocated: AtomicUsize,
    freed: AtomicUsize,
    refused: AtomicUsize,
}

impl<A> Counted<A> {
    /// Counts what passes to and from `inner`.
    pub const fn new(inner: A) -> Self {
        Self {
            inner,
            allocated: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Nodes allocated so far.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Nodes allocated and not given back.
    pub fn live(&self) -> usize {
        self.allocated()
            .wrapping_sub(self.freed.load(Ordering::Relaxed))
    }

    /// Allocations that the inner allocator refused.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

// SAFETY: everything is passed on to an allocator that keeps the promises.
unsafe impl<A: NodeAlloc> NodeAlloc for Counted<A> {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.inner.allocate(layout);
        let counter = if block.is_some() {
            &self.allocated
        } else {
            &self.refused
        };
        counter.fetch_add(1, Ordering::Relaxed);
        block
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.freed.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.deallocate(block, layout) }
    }
}
