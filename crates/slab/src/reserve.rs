//! Nodes set aside before a change, so that the change itself cannot fail.

use core::alloc::Layout;
use core::fmt;
use core::ptr::{self, NonNull};

use std_alloc::collections::TryReserveError;

use crate::{NodeAlloc, block};

/// There was no memory for the nodes that a change needs. Nothing was changed; a [`Reserve`] keeps those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory")
    }
}

impl core::error::Error for AllocError {}

/// So that `?` serves in what makes values with memory of their own, as `Vec::try_reserve` does.
impl From<TryReserveError> for AllocError {
    fn from(_: TryReserveError) -> Self {
        AllocError
    }
}

/// More nodes than this are asked for together: it is not worth it for the few of an ordinary change.
const MANY: usize = 8;

/// Nodes of `SIZE` bytes taken out of an allocator for what comes: for a change that must not fail once it has begun, or to be given back when one must
/// find some, where what was done is to be undone, whatever else has taken the memory meanwhile. (An allocator that keeps what it is given back, as the pools
/// do, gives it to the next that asks.)
///
/// They are linked through their first words, and a reserve can be made [one pointer](Self::into_raw), which a structure laid out as in C can hold.
/// Dropping it leaks the nodes in it, but for those of a pool, which go with it; [`release`](Self::release) it.
///
/// `SIZE` is a multiple of two words; others do not compile.
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
    /// How many there are: not asked of the nodes, which may be gone with their allocator.
    count: usize,
}

// SAFETY: the blocks are nobody else's.
unsafe impl<const SIZE: usize> Send for Reserve<SIZE> {}
// SAFETY: through a shared one they are not looked at.
unsafe impl<const SIZE: usize> Sync for Reserve<SIZE> {}

#[repr(C)]
struct Link {
    next: *mut Link,
    /// How many there are from here on. Of the first of a reserve that is a pointer.
    count: usize,
}

impl<const SIZE: usize> Reserve<SIZE> {
    /// What its nodes are: blocks of `SIZE` bytes, aligned to the largest power of two that divides their size.
    pub const BLOCK: Layout = block::layout::<SIZE>();

    /// None yet.
    pub const fn new() -> Self {
        // Sizes that are none do not come further than this.
        let _ = Self::BLOCK;
        let head = ptr::null_mut();
        Self { head, count: 0 }
    }

    /// The reserve as a pointer: NULL if it is empty.
    ///
    /// # Safety
    ///
    /// As for [`take`](Self::take).
    #[inline]
    pub unsafe fn into_raw(self) -> *mut () {
        if let Some(head) = NonNull::new(self.head) {
            // SAFETY: the blocks in the list are the reserve's own, and are there (the caller's promise).
            unsafe { (&raw mut (*head.as_ptr()).count).write(self.count) };
        }
        self.head.cast()
    }

    /// The reserve that a pointer stands for.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or came from [`into_raw`](Reserve::into_raw) of a reserve of this `SIZE`, and is not used again. The nodes are still there.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        let head = raw.cast::<Link>();
        // SAFETY: it is there, and both of its words were written: the first by `push`, the other by `into_raw` (the caller's promise).
        let count = NonNull::new(head).map_or(0, |head| unsafe { head.read().count });
        Self { head, count }
    }

    /// How many nodes there are.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Sees to it that there are `count` nodes at least, with those that there are, and asks for those that are missing one by one. O(how many are missing).
    ///
    /// # Errors
    ///
    /// If there is no memory; those that could be had are kept.
    #[inline]
    pub fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        // SAFETY: an allocator's blocks are such as its caller asks for.
        unsafe { self.fill_with(count, || alloc.allocate(Self::BLOCK)) }
    }

    /// As [`fill`](Self::fill), and asks for them [all at once](NodeAlloc::allocate_many) if there are many.
    ///
    /// # Errors
    ///
    /// As above.
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
                // SAFETY: the nodes of a run lie one behind the other.
                self.push(unsafe { run.add(i * SIZE) });
            }
        });
        if all { Ok(()) } else { Err(AllocError) }
    }

    /// As [`fill`](Self::fill), with nodes from a closure.
    ///
    /// # Errors
    ///
    /// When the closure gives `None`; those that it gave before are kept.
    ///
    /// # Safety
    ///
    /// It gives memory of the layout [`BLOCK`](Self::BLOCK), which nobody else uses.
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

    /// Adds a node, which nobody else uses.
    #[inline(always)]
    fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Link>().as_ptr();
        // SAFETY: the block is a node's memory, large enough and aligned.
        unsafe { (&raw mut (*block).next).write(self.head) };
        self.head = block;
        self.count += 1;
    }

    /// Takes a node's memory out; `None` if there is none.
    ///
    /// # Safety
    ///
    /// The nodes are still there: neither has their allocator been dropped, with all that are interchangeable with it, nor has all been given back to it at once.
    #[inline]
    pub unsafe fn take(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        self.count -= 1;
        // SAFETY: the blocks in the list are the reserve's own, and were written by `push`; they are there (the caller's promise).
        self.head = unsafe { (&raw const (*block.as_ptr()).next).read() };
        Some(block.cast())
    }

    /// Gives all of them back to the allocator that they came from.
    ///
    /// # Safety
    ///
    /// All came from `alloc`, or one that is interchangeable with it.
    pub unsafe fn release<A: NodeAlloc>(&mut self, alloc: &A) {
        // SAFETY: the caller's promise: who gives them back there has it. Nobody else uses what is in the list.
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
