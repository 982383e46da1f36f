//! Nodes set aside before a write, so that the write itself cannot fail.

use core::ptr::{self, NonNull};

use crate::alloc::NodeAlloc;
use crate::base::error::{ALLOC, told};
use crate::base::{Key, Shape};
use crate::node::{Kind, LAYOUT, Node, NodeMut, Word};

/// There was no memory for the nodes that a change needs. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

told!(AllocError, self => ALLOC);

/// More nodes than this are asked for together: it is not worth it for the few of an ordinary write.
const MANY: usize = 8;

/// Blocks of memory for nodes, linked through their first word; the second word of each says how many
/// there are from it on. Plain data, so that a C structure can hold one as a single pointer. They leak unless they are
/// [released](Reserve::release).
pub struct Reserve {
    head: *mut Block,
}

// SAFETY: the blocks are nobody else's.
unsafe impl Send for Reserve {}
// SAFETY: through a shared one they are only counted.
unsafe impl Sync for Reserve {}

#[repr(C)]
struct Block {
    next: *mut Block,
    count: usize,
}

impl Reserve {
    pub(crate) const fn new() -> Self {
        let head = ptr::null_mut();
        Self { head }
    }

    /// The reserve as a pointer: NULL if it is empty.
    #[inline]
    pub fn into_raw(self) -> *mut () {
        self.head.cast()
    }

    /// The reserve that a pointer stands for.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or came from [`into_raw`](Reserve::into_raw), and is not used again.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        Self { head: raw.cast() }
    }

    /// How many nodes there are.
    #[inline]
    pub fn count(&self) -> usize {
        // SAFETY: blocks in the list were written by `fill` and belong to the reserve.
        NonNull::new(self.head).map_or(0, |head| unsafe { head.read().count })
    }

    /// Makes sure that at least `count` nodes are here. On failure those already had are kept.
    #[inline]
    pub(crate) fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        self.fill_with(count, || alloc.allocate(LAYOUT))
    }

    /// As `fill`: makes sure that at least `count` nodes are here, and asks for them all at once if there are many.
    ///
    /// # Errors
    ///
    /// If there is no memory; those already had are kept.
    pub fn ensure<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        if count <= MANY {
            return self.fill(count, alloc);
        }
        let mut have = self.count();
        if have >= count {
            return Ok(());
        }
        let all = alloc.allocate_many(LAYOUT, count - have, &mut |run, nodes| {
            for i in 0..nodes {
                have += 1;
                // SAFETY: the nodes of a run lie one behind the other.
                self.push(unsafe { run.add(i * LAYOUT.size()) }, have);
            }
        });
        if all {
            return Ok(());
        }
        #[cfg(feature = "tracing")]
        crate::base::events::refused(count, have);
        Err(AllocError)
    }

    /// Adds a node, which nobody else uses; then there are `count`.
    #[inline(always)]
    fn push(&mut self, block: NonNull<u8>, count: usize) {
        let (block, next) = (block.cast::<Block>(), self.head);
        // SAFETY: the block is a node's memory, large enough and aligned.
        unsafe { block.write(Block { next, count }) };
        self.head = block.as_ptr();
    }

    /// As [`fill`](Self::fill), with nodes from a closure: fresh memory of [`LAYOUT`], or `None`.
    #[inline]
    pub(crate) fn fill_with(
        &mut self,
        count: usize,
        mut node: impl FnMut() -> Option<NonNull<u8>>,
    ) -> Result<(), AllocError> {
        let mut have = self.count();
        while have < count {
            let Some(block) = node() else {
                #[cfg(feature = "tracing")]
                crate::base::events::refused(count, have);
                return Err(AllocError);
            };
            have += 1;
            self.push(block, have);
        }
        Ok(())
    }

    /// Takes a node out. There is one: the plan counted them and `fill` succeeded.
    #[inline]
    pub(crate) fn take<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S> {
        let block = self.pop();
        // SAFETY: the block is the reserve's own.
        unsafe { NodeMut::init(block, kind) }
    }

    /// Takes one node's memory out, for another purpose; `None` if there is none.
    #[inline]
    pub fn take_block(&mut self) -> Option<NonNull<u8>> {
        (self.count() > 0).then(|| self.pop())
    }

    #[inline]
    fn pop(&mut self) -> NonNull<u8> {
        assert!(
            !self.head.is_null(),
            "a write used more nodes than its plan reserved"
        );
        // SAFETY: the list is not empty; its blocks are the reserve's own, and were written by `fill`.
        unsafe {
            let block = NonNull::new_unchecked(self.head);
            self.head = block.read().next;
            block.cast()
        }
    }

    /// Takes a node out, as [`take`](Self::take) does, and makes it a copy of another, but for the first word.
    #[inline]
    pub(crate) fn take_copy<K: Key, S: Shape>(
        &mut self,
        node: Node<K, S>,
        first_word: Word,
    ) -> NodeMut<K, S> {
        let block = self.pop();
        // SAFETY: the block is the reserve's own; only the writer writes to a node, and only it copies one.
        unsafe { NodeMut::copy(block, node, first_word) }
    }

    /// Makes sure that a write has used all that was reserved for it: fewer would leak, and show that it was counted wrongly.
    #[inline(always)]
    pub(crate) fn assert_used_up(&self) {
        assert!(
            self.head.is_null(),
            "a write used fewer nodes than were reserved"
        );
    }

    /// Gives back what was not used.
    pub fn release<A: NodeAlloc>(&mut self, alloc: &A) {
        while !self.head.is_null() {
            // SAFETY: blocks in the list were allocated by `fill` and belong to the reserve.
            unsafe { alloc.deallocate(self.pop(), LAYOUT) };
        }
    }
}
