//! Nodes that a client keeps for later writes.

use crate::alloc::{AllocError, NodeAlloc, Reserve};

/// Nodes taken out of an allocator, to be given back to it when a write must find some: where what was done is to be undone, whatever
/// else has taken the memory meanwhile.
///
/// An allocator that keeps what it is given back, as the pools do, gives it to the next writes. Dropping this leaks the nodes in it, but for those of a
/// pool, which go with it.
///
/// ```
/// use maple_tree::alloc::Spare;
/// use maple_tree::{SyncMapleTree, Waiting};
///
/// let map = SyncMapleTree::new(Waiting::new());
/// let mut spare = Spare::new();
/// spare.fill(4, map.allocator())?;
/// // Now, or when there is no memory any more:
/// // SAFETY: they came from there.
/// unsafe { spare.release(map.allocator()) };
/// map.insert(1u64, 1u32)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Spare {
    nodes: Reserve,
}

impl Spare {
    /// None yet.
    pub const fn new() -> Self {
        let nodes = Reserve::new();
        Self { nodes }
    }

    /// Sees to it that there are `count` nodes. O(how many are missing).
    ///
    /// # Errors
    ///
    /// If there is no memory; those that could be had are kept.
    pub fn fill(&mut self, count: usize, alloc: &impl NodeAlloc) -> Result<(), AllocError> {
        self.nodes.fill(count, alloc)
    }

    /// Gives all of them back to the allocator that they came from.
    ///
    /// # Safety
    ///
    /// All came from `alloc`, or one that is interchangeable with it.
    pub unsafe fn release(&mut self, alloc: &impl NodeAlloc) {
        self.nodes.release(alloc);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nodes.count()
    }
}

impl Default for Spare {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Spare {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Spare")
            .field("count", &self.count())
            .finish()
    }
}
