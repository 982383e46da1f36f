//! [`Reserve`]: nodes that are preallocated before a change, so that the change itself cannot fail.

use core::alloc::Layout;
use core::fmt;
use core::ptr::{self, NonNull};

use std_alloc::collections::TryReserveError;

use crate::{NodeAlloc, block};

/// The error of a request for which there is no memory. Nothing was changed. A [`Reserve`] keeps
/// the nodes that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory")
    }
}

impl core::error::Error for AllocError {}

/// Lets `?` convert the error of `Vec::try_reserve`.
impl From<TryReserveError> for AllocError {
    fn from(_: TryReserveError) -> Self {
        AllocError
    }
}

/// The largest count that [`Reserve::fill_many`] reaches one by one. A common request does not pay
/// for the few nodes of an ordinary change.
const MANY: usize = 8;

/// Preallocated nodes of `SIZE` bytes.
///
/// A change that must not fail once it has begun takes its nodes from here. A reserve also keeps
/// memory for an undo: the nodes can be freed to an allocator right before one is needed, whatever
/// else has taken memory in between. (An allocator that keeps freed nodes, as the pools do, gives
/// them to its next caller.)
///
/// The nodes are linked through their first words. A reserve can become [one
/// pointer](Self::into_raw), which a structure with a C layout can hold. Dropping a reserve leaks
/// its nodes, unless a pool owns them and frees them with its slabs: [`release`](Self::release)
/// them.
///
/// `SIZE` must be a multiple of two words; other sizes do not compile.
///
/// ```
/// use samara_slab::{Global, Reserve};
///
/// let mut reserve = Reserve::<32>::new();
/// reserve.fill(4, &Global)?;
/// // Now, or when there is no memory any more:
/// // SAFETY: they came from there.
/// unsafe { reserve.release(&Global) };
/// assert_eq!(reserve.count(), 0);
/// # Ok::<(), samara_slab::AllocError>(())
/// ```
#[must_use = "its nodes leak unless they are released"]
pub struct Reserve<const SIZE: usize> {
    head: *mut Link,
    /// The number of nodes. Not derived from the list, since the nodes may be gone with their
    /// allocator.
    count: usize,
}

// SAFETY: the reserve owns the blocks.
unsafe impl<const SIZE: usize> Send for Reserve<SIZE> {}
// SAFETY: a shared reference does not reach the blocks.
unsafe impl<const SIZE: usize> Sync for Reserve<SIZE> {}

#[repr(C)]
struct Link {
    next: *mut Link,
    /// The number of nodes from here on. Valid only in the first node of a reserve that was made a
    /// pointer.
    count: usize,
}

impl<const SIZE: usize> Reserve<SIZE> {
    /// The layout of the nodes: blocks of `SIZE` bytes, aligned to the largest power of two that
    /// divides their size.
    pub const BLOCK: Layout = block::layout::<SIZE>();

    /// Creates an empty reserve.
    pub const fn new() -> Self {
        // Evaluated here, so that an invalid size does not compile.
        let _ = Self::BLOCK;
        let head = ptr::null_mut();
        Self { head, count: 0 }
    }

    /// Converts the reserve to a pointer, which is NULL if the reserve is empty.
    ///
    /// # Safety
    ///
    /// As for [`take`](Self::take).
    #[inline]
    pub unsafe fn into_raw(self) -> *mut () {
        if let Some(head) = NonNull::new(self.head) {
            // SAFETY: the reserve owns the blocks in the list, and they are still allocated (the
            // caller's promise).
            unsafe { (&raw mut (*head.as_ptr()).count).write(self.count) };
        }
        self.head.cast()
    }

    /// Creates the reserve that a pointer from [`into_raw`](Reserve::into_raw) stands for.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or came from [`into_raw`](Reserve::into_raw) of a reserve of this `SIZE`, and
    /// is not used again. The nodes are still allocated.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        let head = raw.cast::<Link>();
        // SAFETY: the node is allocated, and both of its words were written: one by `push`, the
        // other by `into_raw` (the caller's promise).
        let count = NonNull::new(head).map_or(0, |head| unsafe { head.read().count });
        Self { head, count }
    }

    /// Returns the number of nodes.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns `true` if the reserve has no node.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Fills the reserve up to at least `count` nodes. Requests the missing ones one by one.
    /// O(missing nodes).
    ///
    /// # Errors
    ///
    /// Fails if there is no memory. The nodes that could be allocated are kept.
    #[inline]
    pub fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        // SAFETY: an allocator's blocks have the requested layout, and no one else uses them.
        unsafe { self.fill_with(count, || alloc.allocate(Self::BLOCK)) }
    }

    /// As [`fill`](Self::fill), but requests the nodes [in one call](NodeAlloc::allocate_many) if
    /// many are missing.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill).
    pub fn fill_many<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        if count <= MANY {
            return self.fill(count, alloc);
        }
        let missing = count.saturating_sub(self.count);
        if missing == 0 {
            return Ok(());
        }
        let all = alloc.allocate_many(Self::BLOCK, missing, &mut |run, nodes| {
            for i in 0..nodes {
                // SAFETY: the nodes of a run are contiguous.
                self.push(unsafe { run.add(i * SIZE) });
            }
        });
        if all { Ok(()) } else { Err(AllocError) }
    }

    /// As [`fill`](Self::fill), with nodes from a closure.
    ///
    /// # Errors
    ///
    /// Fails when the closure returns `None`. The nodes that it returned before are kept.
    ///
    /// # Safety
    ///
    /// The closure returns memory of the layout [`BLOCK`](Self::BLOCK) that nothing else uses.
    #[inline]
    pub unsafe fn fill_with(
        &mut self,
        count: usize,
        mut node: impl FnMut() -> Option<NonNull<u8>>,
    ) -> Result<(), AllocError> {
        while self.count < count {
            self.push(node().ok_or(AllocError)?);
        }
        Ok(())
    }

    /// Adds a node that nothing else uses.
    #[inline(always)]
    fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Link>().as_ptr();
        // SAFETY: the block is a node's memory, large enough and aligned.
        unsafe { (&raw mut (*block).next).write(self.head) };
        self.head = block;
        self.count += 1;
    }

    /// Takes a node out, or returns `None` if there is none.
    ///
    /// # Safety
    ///
    /// The nodes are still allocated: neither was their allocator dropped, with all that are
    /// interchangeable with it, nor were all of its nodes freed at once.
    #[inline]
    pub unsafe fn take(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        self.count -= 1;
        // SAFETY: the reserve owns the blocks in the list, `push` wrote them, and they are still
        // allocated (the caller's promise).
        self.head = unsafe { (&raw const (*block.as_ptr()).next).read() };
        Some(block.cast())
    }

    /// Frees all nodes to the allocator that they came from.
    ///
    /// # Safety
    ///
    /// All nodes came from `alloc`, or from an allocator that is interchangeable with it.
    pub unsafe fn release<A: NodeAlloc>(&mut self, alloc: &A) {
        // SAFETY: the caller still has the allocator, so that the nodes are allocated. Nothing else
        // uses what is in the list.
        while let Some(block) = unsafe { self.take() } {
            // SAFETY: as above.
            unsafe { alloc.deallocate(block, Self::BLOCK) };
        }
    }
}

impl<const SIZE: usize> Default for Reserve<SIZE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize> fmt::Debug for Reserve<SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("count", &self.count())
            .finish()
    }
}
