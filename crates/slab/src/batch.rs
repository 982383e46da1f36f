//! [`NodeBatch`]: all nodes of a structure, allocated before the first is used.

use core::alloc::Layout;
use core::fmt;
use core::ptr::{self, NonNull};

use crate::{AllocError, NodeAlloc, block};

/// Nodes of `SIZE` bytes for a structure that is built or duplicated as a whole.
///
/// They are counted beforehand and allocated at once, in [one run](NodeAlloc::allocate_run) if the
/// allocator supports it, or in [several](NodeAlloc::allocate_many). Nodes of a run are taken in
/// address order. Nodes that are not taken are freed when the batch is dropped.
///
/// `SIZE` must be a multiple of two words; other sizes do not compile.
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
    /// The next node of the current run.
    run: *mut u8,
    left: usize,
    /// The runs that have not been begun.
    runs: *mut Run,
}

/// The header of a run that has not been begun, in the memory of its first node.
struct Run {
    next: *mut Run,
    nodes: usize,
}

impl<'a, A: NodeAlloc, const SIZE: usize> NodeBatch<'a, A, SIZE> {
    /// The layout of the nodes: blocks of `SIZE` bytes, aligned to the largest power of two that
    /// divides their size.
    pub const BLOCK: Layout = block::layout::<SIZE>();

    /// Allocates this many nodes. O(runs).
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for all. The nodes that could be allocated are freed.
    pub fn new(nodes: usize, alloc: &'a mut A) -> Result<Self, AllocError> {
        let run = alloc.allocate_run_mut(Self::BLOCK, nodes);
        // Dropped on failure, which frees what was added so far.
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

    /// Adds a run that nothing else uses.
    #[inline(always)]
    fn add(&mut self, run: NonNull<u8>, nodes: usize) {
        if nodes == 0 {
            return;
        }
        let (run, next) = (run.cast::<Run>(), self.runs);
        // SAFETY: the memory is at least a node's, which is large enough and aligned.
        unsafe { run.write(Run { next, nodes }) };
        self.runs = run.as_ptr();
    }

    /// Returns the allocator of the nodes.
    #[inline]
    pub fn source(&self) -> &'a A {
        self.alloc
    }

    /// Takes a node, or returns `None` if all have been taken.
    #[inline(always)]
    pub fn take(&mut self) -> Option<NonNull<u8>> {
        if self.left == 0 {
            let others = NonNull::new(self.runs)?;
            // SAFETY: `add` wrote the runs in the list, and nothing else uses them.
            let Run { next, nodes } = unsafe { others.read() };
            (self.run, self.left, self.runs) = (others.as_ptr().cast(), nodes, next);
        }
        self.left -= 1;
        let block = self.run;
        // The address after the last node is at the end of the run.
        self.run = block.wrapping_add(SIZE);
        // SAFETY: runs are not at address 0.
        Some(unsafe { NonNull::new_unchecked(block) })
    }

    /// Frees a node that was taken, for a structure that is abandoned. The node goes to the
    /// allocator, not back to the batch.
    ///
    /// # Safety
    ///
    /// The node was taken from here, and nothing uses it any more.
    pub unsafe fn put(&self, block: NonNull<u8>) {
        // SAFETY: each node of a run is freed by itself. The rest is the caller's promise.
        unsafe { self.alloc.deallocate(block, Self::BLOCK) }
    }
}

impl<A: NodeAlloc, const SIZE: usize> Drop for NodeBatch<'_, A, SIZE> {
    fn drop(&mut self) {
        while let Some(block) = self.take() {
            // SAFETY: the node was just taken, and nothing uses it.
            unsafe { self.put(block) };
        }
    }
}

impl<A: NodeAlloc, const SIZE: usize> fmt::Debug for NodeBatch<'_, A, SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBatch").finish_non_exhaustive()
    }
}
