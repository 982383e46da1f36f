//! Dead nodes: replaced nodes that have not been freed yet.

use core::ptr::{self, NonNull};

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape};
use crate::node::{LAYOUT, Node};

/// A list of dead nodes, linked through their first words: plain data. Dropping it leaks them.
///
/// Readers that started before the nodes were replaced may still read everything else in them.
#[derive(Default)]
#[must_use = "dead nodes leak unless they are freed"]
pub(crate) struct DeadNodes {
    head: *mut u8,
    count: usize,
}

// SAFETY: the list owns its nodes.
unsafe impl Send for DeadNodes {}

impl DeadNodes {
    pub(crate) const fn new() -> Self {
        let head = ptr::null_mut();
        Self { head, count: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a dead node.
    ///
    /// # Safety
    ///
    /// `block` is that of a dead node, which only this list will free.
    #[inline]
    pub(crate) unsafe fn push<K: Key, S: Shape>(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { Node::<K, S>::from_block(block) }.link_dead(self.head);
        self.head = block.as_ptr();
        self.count += 1;
    }

    /// Removes and returns the node that was added last, as raw memory.
    ///
    /// # Safety
    ///
    /// The nodes are of trees with this `K` and `S`, and no reader is in any of them.
    #[inline]
    pub(crate) unsafe fn pop<K: Key, S: Shape>(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: nodes in the list are allocated, and nothing else uses them (the caller's
        // promise).
        self.head = unsafe { Node::<K, S>::from_block(block) }.next_dead();
        self.count -= 1;
        Some(block)
    }

    /// Frees the nodes.
    ///
    /// # Safety
    ///
    /// The nodes are of trees with this `K` and `S`. They came from this allocator or one that is
    /// interchangeable with it, and no reader is in any of them.
    pub(crate) unsafe fn free<K: Key, S: Shape>(mut self, alloc: &impl NodeAlloc) {
        // SAFETY: nodes in the list are allocated, and nothing else uses them (the caller's
        // promise).
        unsafe {
            while let Some(block) = self.pop::<K, S>() {
                #[cfg(samara_loom)]
                Node::<K, S>::from_block(block).use_up();
                alloc.deallocate(block, LAYOUT);
            }
        }
    }
}
