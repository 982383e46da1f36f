//! [`NodeAlloc`]: the trait of allocators whose allocations may fail. Also the global allocator,
//! and references as allocators.

use core::alloc::Layout;
use core::ptr::NonNull;

/// An allocator of nodes.
///
/// Every allocation may fail. The structure then reports the failure and stays unchanged. An
/// implementation needs only [`allocate`](NodeAlloc::allocate) and
/// [`deallocate`](NodeAlloc::deallocate):
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
/// * [`allocate`](NodeAlloc::allocate) returns memory of at least `layout.size()` bytes, aligned to
///   `layout.align()`, that nothing else uses until it is freed. So do
///   [`allocate_run`](NodeAlloc::allocate_run) and
///   [`allocate_run_mut`](NodeAlloc::allocate_run_mut), for each block of the run, and
///   [`allocate_many`](NodeAlloc::allocate_many), for each block that it hands over. There is no
///   block of size zero.
/// * Memory stays valid until the first of these: it is freed, all memory is freed
///   ([`deallocate_all`](NodeAlloc::deallocate_all)), or the allocator is dropped together with all
///   that are interchangeable with it. Moving the allocator does not invalidate it.
/// * An allocator neither reads nor writes a block while it is allocated.
/// * If the type is `Clone`, a clone made while a block is allocated is interchangeable with its
///   original from then on: either frees what the other has allocated, before or after.
pub unsafe trait NodeAlloc {
    /// Allocates memory for one node. Returns `None` if there is no memory at the moment, or if the
    /// layout's size is zero.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// `block` came from this allocator, or from one that is interchangeable with it, by itself or
    /// in a run. `layout` is the one it was allocated with, and nothing uses the block any more.
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout);

    /// Allocates `count` contiguous nodes. `layout.size()` must be a multiple of `layout.align()`.
    /// Each node is freed by itself.
    ///
    /// Returns `None` if there is no memory, or if this allocator has no runs: then allocate one
    /// node at a time.
    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        let _ = (layout, count);
        None
    }

    /// As [`allocate_run`](NodeAlloc::allocate_run), for a caller with exclusive access, so that no
    /// lock need be taken.
    #[inline]
    fn allocate_run_mut(&mut self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        self.allocate_run(layout, count)
    }

    /// Allocates `count` nodes and hands them to `take`, as runs of contiguous nodes: the first
    /// node, and the number of nodes. Each node is freed by itself.
    ///
    /// Returns `false` if there is no memory for all. The nodes that were handed over then stay
    /// with the caller.
    ///
    /// The default implementation allocates one by one.
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

    /// Frees all allocated nodes at once, if that is cheaper than one by one. Otherwise does
    /// nothing and returns `false`.
    ///
    /// # Safety
    ///
    /// Nothing uses a node that came from this allocator, or from one that is interchangeable with
    /// it. Nodes in a [`Reserve`](crate::Reserve) or a [`NodeBatch`](crate::NodeBatch) are in use.
    /// No other thread uses the allocator during the call. It may be used again afterwards. A
    /// structure that holds an allocator by value may regard all of its nodes as its own.
    unsafe fn deallocate_all(&self) -> bool {
        false
    }

    /// Creates an allocator for a part of a structure that is split off. It is interchangeable with
    /// this one from then on, also on another thread if the type is `Send`.
    ///
    /// Returns `None` if there is no memory for the state that the two share. Also if, as in the
    /// default implementation, the type has no such allocators. Then nodes must be copied.
    fn split(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Takes over all blocks that `other` has allocated. They are freed to `self` from then on, and
    /// `other` has none.
    ///
    /// Returns `false`, and changes nothing, if it cannot, as in the default implementation. Then
    /// nodes must be copied.
    ///
    /// # Safety
    ///
    /// Blocks of `other`, and of allocators that are interchangeable only with `other`, are freed
    /// to `self` from now on.
    unsafe fn join(&mut self, other: &mut Self) -> bool
    where
        Self: Sized,
    {
        let _ = other;
        false
    }
}

/// An allocator that can create the allocator for a duplicate of a structure.
pub trait Fork: NodeAlloc + Sized {
    /// Creates the allocator for a duplicate's nodes: an empty one, or another handle to shared
    /// state.
    #[must_use]
    fn fork(&self) -> Self;
}

/// The program's global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

// SAFETY: the global allocator keeps the promises of `GlobalAlloc`, which are those of this trait.
// The value has no state, so that all values are interchangeable.
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

/// Implements the traits for handles. They pass on all calls but `deallocate_all`, since a handle
/// does not own all nodes.
macro_rules! handle {
    ($($handle:ty),*) => {$(
        // SAFETY: all calls go to an allocator that keeps the promises.
        unsafe impl<A: NodeAlloc + ?Sized> NodeAlloc for $handle {
            #[inline]
            fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
                (**self).allocate(layout)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the caller's promise.
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
