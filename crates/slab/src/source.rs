//! Where nodes come from: a trait whose allocations may fail, the global allocator, and handles.

use core::alloc::Layout;
use core::ptr::NonNull;

/// A source of memory for nodes.
///
/// Every allocation may fail; a structure then reports the failure and stays as it was. An allocator of one's own needs
/// [`allocate`](NodeAlloc::allocate) and [`deallocate`](NodeAlloc::deallocate) only:
///
/// ```
/// use std::alloc::Layout;
/// use std::cell::Cell;
/// use std::ptr::NonNull;
///
/// use samara_slab::{Global, NodeAlloc, Pool};
///
/// /// Refuses after so many.
/// struct Countdown(Cell<usize>);
///
/// // SAFETY: passed on to an allocator that keeps the promises.
/// unsafe impl NodeAlloc for Countdown {
///     fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
///         self.0.set(self.0.get().checked_sub(1)?);
///         Global.allocate(layout)
///     }
///
///     unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
///         // SAFETY: the caller's promise is passed on.
///         unsafe { Global.deallocate(block, layout) }
///     }
/// }
///
/// let pool = Pool::<_, 64>::new_in(Countdown(Cell::new(1)));
/// let block = Pool::<Countdown, 64>::BLOCK;
/// // The first slab has one node, and there is no second.
/// assert!(pool.allocate(block).is_some() && pool.allocate(block).is_none());
/// ```
///
/// # Safety
///
/// * [`allocate`](NodeAlloc::allocate) returns memory of at least `layout.size()` bytes aligned to
///   `layout.align()` that nobody else uses until it is given back. So does
///   [`allocate_run`](NodeAlloc::allocate_run) and [`allocate_run_mut`](NodeAlloc::allocate_run_mut), for each block of the run, and
///   [`allocate_many`](NodeAlloc::allocate_many), for each block that it hands over. There is no block of size zero.
/// * Memory stays valid until it is given back, all is ([`deallocate_all`](NodeAlloc::deallocate_all)), or the allocator is dropped with all allocators that
///   are interchangeable with it, whichever is first; and when the allocator is moved.
/// * An allocator neither reads nor writes a block while it is allocated.
/// * If the type is `Clone`, a clone that is made while a block is allocated is interchangeable with its original from then on: either gives back what the
///   other has allocated, before or after.
pub unsafe trait NodeAlloc {
    /// Memory for one node, or `None` if there is none at the moment, or the layout's size is zero.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes a node's memory back.
    ///
    /// # Safety
    ///
    /// `block` came from this allocator (or one that is interchangeable with it), by itself or in a run, with the same `layout`, and nobody uses it any more.
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
    /// Nobody uses a node that came from this allocator (or one that is interchangeable with it) any more; those in a [`Reserve`](crate::Reserve) or a
    /// [`NodeBatch`](crate::NodeBatch) are in use. Nobody else calls it meanwhile. It may be used again afterwards. A
    /// structure that holds an allocator by value may regard all of its nodes as its own.
    unsafe fn deallocate_all(&self) -> bool {
        false
    }

    /// An allocator for the part of a structure that is split off: one that is interchangeable with this one from then on, on another thread, too, if the type is
    /// `Send`. `None` if there is no memory for what the two have in common, or (as here) if there is no such allocator: then nodes have to be copied.
    fn split(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Takes over all blocks that `other` has allocated, which are given back here from then on; `other` has none. `false` if (as here) it
    /// cannot: nothing has changed then, and nodes have to be copied.
    ///
    /// # Safety
    ///
    /// Blocks of `other`, and of allocators that are interchangeable with it alone, are given back here from now on.
    unsafe fn join(&mut self, other: &mut Self) -> bool
    where
        Self: Sized,
    {
        let _ = other;
        false
    }
}

/// An allocator that can provide for the duplicate of a structure.
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
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout is not of size zero.
        NonNull::new(unsafe { std_alloc::alloc::alloc(layout) })
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller promises that `block` came from `allocate` above with this layout.
        unsafe { std_alloc::alloc::dealloc(block.as_ptr(), layout) }
    }

    #[inline]
    fn split(&mut self) -> Option<Self> {
        Some(Self)
    }

    #[inline]
    unsafe fn join(&mut self, _: &mut Self) -> bool {
        true
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

            #[inline]
            fn split(&mut self) -> Option<Self> {
                Some(self.clone())
            }

            #[inline]
            unsafe fn join(&mut self, other: &mut Self) -> bool {
                core::ptr::addr_eq(&raw const **self, &raw const **other)
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
