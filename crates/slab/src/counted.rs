//! [`Counted`]: an allocator that counts.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{Fork, NodeAlloc};

/// An allocator that counts the calls of another one, to show that nothing leaks and what a change
/// costs.
///
/// ```
/// use core::alloc::Layout;
/// use samara_slab::{Counted, Global, NodeAlloc};
///
/// let nodes = Counted::new(Global);
/// let layout = Layout::new::<[u64; 4]>();
/// let node = nodes.allocate(layout).expect("memory");
/// assert_eq!(nodes.live(), 1);
/// // SAFETY: it came from there, and nobody uses it.
/// unsafe { nodes.deallocate(node, layout) };
/// assert_eq!((nodes.live(), nodes.allocated()), (0, 1));
/// ```
#[derive(Debug, Default)]
pub struct Counted<A> {
    inner: A,
    allocated: AtomicUsize,
    freed: AtomicUsize,
    refused: AtomicUsize,
}

impl<A> Counted<A> {
    /// Counts the allocations of `inner`.
    pub const fn new(inner: A) -> Self {
        Self {
            inner,
            allocated: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Returns the number of nodes allocated so far.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Returns the number of nodes allocated and not freed.
    pub fn live(&self) -> usize {
        // The freed ones are read first. Otherwise concurrent calls could make more nodes appear
        // freed than allocated.
        let freed = self.freed.load(Ordering::Relaxed);
        self.allocated().saturating_sub(freed)
    }

    /// Returns the number of allocations that the inner allocator refused.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

// SAFETY: all calls go to an allocator that keeps the promises.
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
        // SAFETY: the caller's promise.
        unsafe { self.inner.deallocate(block, layout) }
    }

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        // `None` is not a refusal: the caller then allocates the nodes one by one.
        let run = self.inner.allocate_run(layout, count)?;
        self.allocated.fetch_add(count, Ordering::Relaxed);
        Some(run)
    }

    fn allocate_many(
        &self,
        layout: Layout,
        count: usize,
        take: &mut dyn FnMut(NonNull<u8>, usize),
    ) -> bool {
        let all = self.inner.allocate_many(layout, count, &mut |block, run| {
            self.allocated.fetch_add(run, Ordering::Relaxed);
            take(block, run);
        });
        if !all {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        all
    }

    unsafe fn deallocate_all(&self) -> bool {
        // SAFETY: the caller's promise.
        let done = unsafe { self.inner.deallocate_all() };
        if done {
            self.freed.store(self.allocated(), Ordering::Relaxed);
        }
        done
    }
}

impl<A: Fork> Fork for Counted<A> {
    /// Creates an allocator whose counters start at zero.
    fn fork(&self) -> Self {
        Self::new(self.inner.fork())
    }
}
