//! Nodes set aside.

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use core::ptr::NonNull;

/// More nodes than this are asked for together.
const MANY: usize = 8;

/// Nodes set aside; leaks unless [released](NodeReserve::release) or [turned into](NodeReserve::into_raw) a pointer.
pub struct NodeReserve(pub(super) Reserve);

impl Default for NodeReserve {
    fn default() -> Self {
        Self(Reserve::new())
    }
}

impl NodeReserve {
    /// The reserve that a pointer stands for.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or came from [`into_raw`](NodeReserve::into_raw), and is not used again.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Reserve::from_raw(raw) })
    }

    /// The reserve as a pointer: NULL if it is empty.
    #[inline]
    pub fn into_raw(self) -> *mut () {
        self.0.into_raw()
    }

    /// How many nodes there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Makes sure that there are at least `count`.
    ///
    /// # Errors
    ///
    /// There was no memory; the nodes already had are kept.
    pub fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        // Not worth it for the few nodes of an ordinary write.
        if count > MANY {
            return self.0.fill_many(count, alloc);
        }
        self.0.fill(count, alloc)
    }

    /// Takes one node's memory out, for another purpose.
    #[inline]
    pub fn take(&mut self) -> Option<NonNull<u8>> {
        (self.count() > 0).then(|| self.0.pop())
    }

    /// Gives back what is left.
    pub fn release<A: NodeAlloc>(mut self, alloc: &A) {
        self.0.release(alloc);
    }
}
