//! Nodes set aside before a write, so that the write itself cannot fail.

use core::ptr::{self, NonNull};

use crate::alloc::NodeAlloc;
use crate::key::Key;
use crate::node::{Kind, LAYOUT, NodeMut};
use crate::shape::Shape;

/// There was no memory for the nodes that a change needs. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl core::fmt::Display for AllocError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no memory for a tree node")
    }
}

impl core::error::Error for AllocError {}

/// Blocks of memory for nodes, linked through their first word: plain data, so that a C structure
/// can hold one as a single pointer.
pub(crate) struct Reserve {
    head: *mut Block,
    count: usize,
}

#[repr(C)]
struct Block {
    next: *mut Block,
}

impl Reserve {
    pub(crate) const fn new() -> Self {
        Self {
            head: ptr::null_mut(),
            count: 0,
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Makes sure that at least `count` nodes are here. On failure those already had are kept.
    #[inline]
    pub(crate) fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        while self.count < count {
            let block = alloc.allocate(LAYOUT).ok_or(AllocError)?.cast::<Block>();
            // SAFETY: the block is fresh, large enough and aligned.
            unsafe { block.write(Block { next: self.head }) };
            self.head = block.as_ptr();
            self.count += 1;
        }
        Ok(())
    }

    /// Takes a node out. There is one: the plan counted them and `fill` succeeded.
    #[inline]
    pub(crate) fn take<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S> {
        assert!(
            self.count > 0,
            "a write used more nodes than its plan reserved"
        );
        // SAFETY: the count says that the list is not empty; its blocks are the reserve's own, and
        // were written by `fill`.
        unsafe {
            let block = NonNull::new_unchecked(self.head);
            self.head = block.read().next;
            self.count -= 1;
            NodeMut::init(block.cast(), kind)
        }
    }

    /// Gives back what was not used.
    pub(crate) fn release<A: NodeAlloc>(&mut self, alloc: &A) {
        while let Some(block) = NonNull::new(self.head) {
            // SAFETY: blocks in the list were allocated by `fill` and belong to the reserve.
            unsafe {
                self.head = block.read().next;
                alloc.deallocate(block.cast(), LAYOUT);
            }
        }
        self.count = 0;
    }
}
