//! Where nodes come from: a trait whose allocations may fail, and ready implementations. Here is also what is set aside before a write
//! (`reserve`) and what is left behind by one (`dead`).
//!
//! May know: `base`, and of `node` how large a node is and how one is made.

/// What pools have in common: making one over the global allocator, asking it, forking it. `$bytes` are those of `$it`.
macro_rules! pool {
    ($pool:ident, NodeAlloc $(+ $more:ident)?, $it:ident => $bytes:expr) => {
        impl $pool {
            const_unless_loom! {
                /// An empty pool over the global allocator. Allocates nothing.
                #[must_use]
                pub const fn new() -> Self {
                    Self::new_in(Global)
                }
            }
        }

        impl<A: NodeAlloc $(+ $more)?> $pool<A> {
            /// Where the slabs come from.
            pub fn source(&self) -> &A {
                &self.source
            }

            /// Bytes of all slabs.
            pub fn bytes(&self) -> usize {
                let $it = self;
                $bytes
            }
        }

        impl<A: Fork $(+ $more)?> Fork for $pool<A> {
            /// An empty pool.
            fn fork(&self) -> Self {
                Self::new_in(self.source.fork())
            }
        }

        impl<A: NodeAlloc + Default $(+ $more)?> Default for $pool<A> {
            fn default() -> Self {
                Self::new_in(A::default())
            }
        }

        impl<A: NodeAlloc $(+ $more)?> core::fmt::Debug for $pool<A> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($pool))
                    .field("bytes", &self.bytes())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) mod dead;
mod pool;
pub(crate) mod reserve;
mod shared;
mod slabs;
mod spare;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

pub use pool::Pool;
pub(crate) use reserve::{AllocError, Reserve};
pub use shared::SharedPool;
pub use spare::Spare;

/// A source of memory for nodes.
///
/// Every allocation may fail; a tree then reports the failure and stays as it was.
///
/// # Safety
///
/// * [`allocate`](NodeAlloc::allocate) returns memory of at least `layout.size()` bytes aligned to
///   `layout.align()` that nobody else uses until it is given back. So does
///   [`allocate_run`](NodeAlloc::allocate_run) and [`allocate_run_mut`](NodeAlloc::allocate_run_mut), for each block of the run, and
///   [`allocate_many`](NodeAlloc::allocate_many), for each block that it hands over.
/// * Memory stays valid when the allocator value is moved.
/// * An allocator neither reads nor writes a block while it is allocated.
/// * If the type is `Clone`, a clone that is made while a block is allocated may be used to give this block back.
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

    /// Memory for `count` nodes, each behind the one before (`layout.size()` is a multiple of `layout.align()`), or `None` if
    /// there is none, or if this allocator has no runs: ask it for one node at a time then. Each of the nodes is given
    /// back by itself.
    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        let _ = (layout, count);
        None
    }

    /// As [`allocate_run`](NodeAlloc::allocate_run), for one who has the allocator for himself, so that no lock need be taken.
    #[inline]
    fn allocate_run_mut(&mut self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        self.allocate_run(layout, count)
    }

    /// Hands memory for `count` nodes to `take`, as runs of nodes each behind the one before: the first, and how many. Each of the nodes is given back
    /// by itself. `false` if there is no memory for all; those that have been handed over stay with the caller.
    ///
    /// One by one, unless an allocator has a better way.
    fn allocate_many(
        &self,
        layout: Layout,
        count: usize,
        take: &mut dyn FnMut(NonNull<u8>, usize),
    ) -> bool {
        (0..count).all(|_| {
            let block = self.allocate(layout);
            block.inspect(|&block| take(block, 1)).is_some()
        })
    }

    /// Takes back all nodes that are allocated at once, if that is cheaper than one by one; if not, does nothing and returns
    /// `false`.
    ///
    /// # Safety
    ///
    /// Nobody uses a node that came from this allocator (or one that is interchangeable with it) any more. A
    /// tree that holds an allocator by value regards all of its nodes as its own.
    unsafe fn deallocate_all(&self) -> bool {
        false
    }
}

/// An allocator that can provide for the duplicate of a tree.
pub trait Fork: NodeAlloc + Sized {
    /// The allocator of a duplicate's nodes: one that is empty as far as nodes of its own go, or another handle to what is shared.
    #[must_use]
    fn fork(&self) -> Self;
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

impl Fork for Global {
    #[inline]
    fn fork(&self) -> Self {
        Self
    }
}

/// Handles: everything is passed on, except that one who has a handle does not know whose all the nodes are.
macro_rules! handle {
    ($($handle:ty),*) => {$(
        // SAFETY: everything is passed on to an allocator that keeps the promises.
        unsafe impl<A: NodeAlloc + ?Sized> NodeAlloc for $handle {
            #[inline]
            fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
                (**self).allocate(layout)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the caller's promise is passed on.
                unsafe { (**self).deallocate(block, layout) }
            }

            #[inline]
            fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
                (**self).allocate_run(layout, count)
            }

            #[inline]
            fn allocate_many(
                &self,
                layout: Layout,
                count: usize,
                take: &mut dyn FnMut(NonNull<u8>, usize),
            ) -> bool {
                (**self).allocate_many(layout, count, take)
            }
        }

        impl<A: NodeAlloc + ?Sized> Fork for $handle {
            #[inline]
            fn fork(&self) -> Self {
                self.clone()
            }
        }
    )*};
}

handle!(&A, std_alloc::sync::Arc<A>);

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

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        // No run is not a refusal: the nodes are then asked for one by one.
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
        // SAFETY: the caller's promise is passed on.
        let done = unsafe { self.inner.deallocate_all() };
        if done {
            self.freed.store(self.allocated(), Ordering::Relaxed);
        }
        done
    }
}

impl<A: Fork> Fork for Counted<A> {
    /// One that counts anew.
    fn fork(&self) -> Self {
        Self::new(self.inner.fork())
    }
}
