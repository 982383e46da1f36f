//! The nodes of a whole structure: all of them are there before the first is made.

use core::alloc::Layout;
use core::fmt;
use core::ptr::{self, NonNull};

use crate::{AllocError, NodeAlloc, block};

/// Nodes of `SIZE` bytes for a structure that is built or duplicated as a whole: counted before, allocated at once, in [one run](NodeAlloc::allocate_run) if the
/// allocator has such, or in [several](NodeAlloc::allocate_many). Nodes of a run are taken in the order in which they lie. Those that are not taken go back
/// when it is dropped.
///
/// `SIZE` is a multiple of two words; others do not compile.
///
/// ```
/// use samara_slab::{Global, NodeAlloc, Pool, NodeBatch};
///
/// let mut pool = Pool::<Global, 64>::new();
/// let mut batch = NodeBatch::<_, 64>::new(10, &mut pool)?;
/// let (first, second) = (batch.take(), batch.take());
/// assert_eq!(first.map(|node| node.addr().get() + 64), second.map(|node| node.addr().get()));
/// # Ok::<(), samara_slab::AllocError>(())
/// ```
pub struct NodeBatch<'a, A: NodeAlloc, const SIZE: usize> {
    alloc: &'a A,
    /// What is left of the run that has been begun, …
    run: *mut u8,
    left: usize,
    /// … and the others.
    runs: *mut Run,
}

/// Of a run that has not been begun, the first node's memory says how long it is, and where the next run is.
struct Run {
    next: *mut Run,
    nodes: usize,
}

impl<'a, A: NodeAlloc, const SIZE: usize> NodeBatch<'a, A, SIZE> {
    /// What its nodes are: blocks of `SIZE` bytes, aligned to the largest power of two that divides their size.
    pub const BLOCK: Layout = block::layout::<SIZE>();

    /// So many nodes. O(runs).
    ///
    /// # Errors
    ///
    /// If there is no memory for all; those that could be had are given back.
    pub fn new(nodes: usize, alloc: &'a mut A) -> Result<Self, AllocError> {
        let run = alloc.allocate_run_mut(Self::BLOCK, nodes);
        // Dropping it gives back what there is.
        let mut batch = Self {
            alloc,
            run: ptr::null_mut(),
            left: 0,
            runs: ptr::null_mut(),
        };
        if let Some(run) = run {
            batch.add(run, nodes);
            return Ok(batch);
        }
        let alloc = batch.alloc;
        let all = alloc.allocate_many(Self::BLOCK, nodes, &mut |run, count| batch.add(run, count));
        all.then_some(batch).ok_or(AllocError)
    }

    /// Adds a run, which nobody else uses.
    #[inline(always)]
    fn add(&mut self, run: NonNull<u8>, nodes: usize) {
        if nodes == 0 {
            return;
        }
        let (run, next) = (run.cast::<Run>(), self.runs);
        // SAFETY: the memory is that of a node at least, which is large enough and aligned.
        unsafe { run.write(Run { next, nodes }) };
        self.runs = run.as_ptr();
    }

    /// Where the nodes come from.
    #[inline]
    pub fn source(&self) -> &'a A {
        self.alloc
    }

    /// A node's memory, which nobody else uses; `None` if all have been taken.
    #[inline(always)]
    pub fn take(&mut self) -> Option<NonNull<u8>> {
        if self.left == 0 {
            let others = NonNull::new(self.runs)?;
            // SAFETY: runs in the list were written by `add`, and nobody else uses them.
            let Run { next, nodes } = unsafe { others.read() };
            (self.run, self.left, self.runs) = (others.as_ptr().cast(), nodes, next);
        }
        self.left -= 1;
        let block = self.run;
        // The address after the last one is at the end of the run.
        self.run = block.wrapping_add(SIZE);
        // SAFETY: runs are not at address 0.
        Some(unsafe { NonNull::new_unchecked(block) })
    }

    /// Gives a node that was taken back to where it came from, not to the batch: that of a structure that is given up.
    ///
    /// # Safety
    ///
    /// It was taken from here, and nobody uses it any more.
    pub unsafe fn put(&self, block: NonNull<u8>) {
        // SAFETY: each node of a run is given back by itself (the caller's promise otherwise).
        unsafe { self.alloc.deallocate(block, Self::BLOCK) }
    }
}

impl<A: NodeAlloc, const SIZE: usize> Drop for NodeBatch<'_, A, SIZE> {
    fn drop(&mut self) {
        while let Some(block) = self.take() {
            // SAFETY: nobody has it.
            unsafe { self.put(block) };
        }
    }
}

impl<A: NodeAlloc, const SIZE: usize> fmt::Debug for NodeBatch<'_, A, SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBatch").finish_non_exhaustive()
    }
}
