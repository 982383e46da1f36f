//! The first word of a node: who its parent is, and whether it has been replaced.

use core::ptr::{self, NonNull};

use crate::base::atomic::Ordering;
use crate::base::{Key, Shape};
#[cfg(samara_loom)]
use crate::node::IDLE_SLOTS;
use crate::node::{COUNTED, DEAD, END_MASK, Kind, Node, TAG_BITS, Word};

impl<K: Key, S: Shape> Node<K, S> {
    /// The address in the first word: the parent's, or the next dead node's.
    #[inline(always)]
    fn link(self) -> *mut u8 {
        Self::address_in(self.cells.first_word().load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn address_in(first_word: Word) -> *mut u8 {
        first_word.cast::<u8>().map_addr(|a| a & !TAG_BITS)
    }

    #[inline(always)]
    pub(crate) fn is_child_of(self, other: Self) -> bool {
        let word = self.cells.first_word().load(Ordering::Acquire).addr();
        word & !END_MASK == other.block().addr().get()
    }

    /// Returns `true` if this node's parent is `above`, or if both are `None`.
    pub(crate) fn names(self, above: Option<Self>) -> bool {
        match above {
            Some(above) => self.is_child_of(above),
            None => self.link().is_null(),
        }
    }

    /// The parent, or `None` for the root. `inner` is the kind of inner nodes in this tree. The
    /// node is not dead.
    #[inline(always)]
    pub(crate) fn parent(self, inner: Kind) -> Option<Self> {
        self.named_by(self.first_word(), inner)
    }

    /// The parent that a first word of this node names: one that was read while the node was neither dead nor counted.
    #[inline(always)]
    pub(super) fn named_by(self, first_word: Word, inner: Kind) -> Option<Self> {
        debug_assert!(!self.is_dead() && first_word.addr() & COUNTED == 0);
        let base = NonNull::new(Self::address_in(first_word))?;
        // SAFETY: parents live as long as their children are in the tree; only the writer asks.
        Some(unsafe { Self::at(base, inner) })
    }

    /// Links the node to its parent, or makes it the root.
    #[inline(always)]
    pub(crate) fn set_parent(self, parent: Option<Self>) {
        // Readers look at the other bits only, which stay what they were.
        let word = self.first_word_below(parent);
        self.cells.first_word().store(word, Ordering::Relaxed);
    }

    /// The first word, of a node that is neither dead nor counted.
    #[inline(always)]
    pub(crate) fn first_word(self) -> Word {
        self.cells.first_word().load(Ordering::Relaxed)
    }

    /// As [`first_word`](Self::first_word), if the node, or a copy of it, is below another one, or the root.
    #[inline(always)]
    pub(crate) fn first_word_below(self, parent: Option<Self>) -> Word {
        let parent = parent.map_or(ptr::null_mut(), |p| p.block().as_ptr());
        parent.map_addr(|a| a | self.end()).cast()
    }

    #[inline(always)]
    pub(crate) fn mark_dead(self) {
        let cell = self.cells.first_word();
        let word = cell.load(Ordering::Relaxed);
        cell.store(word.map_addr(|a| a | DEAD), Ordering::Release);
        #[cfg(samara_loom)]
        if self.used() + IDLE_SLOTS <= self.capacity() {
            // So that the checker reports readers that look at `idle`.
            // SAFETY: within the node.
            unsafe { self.cells.use_last_slots(self.capacity(), IDLE_SLOTS) };
        }
    }

    /// Chains a dead node to another: it has no parent any more, so that the address in its first
    /// word is free, and retiring a node takes no memory. Readers look at the low bits only.
    #[inline(always)]
    pub(crate) fn chain(self, next: *mut u8) {
        debug_assert!(self.is_dead());
        let cell = self.cells.first_word();
        let low = cell.load(Ordering::Relaxed).addr() & TAG_BITS;
        cell.store(next.map_addr(|a| a | low).cast(), Ordering::Release);
    }

    /// The node that a dead one was chained to.
    #[inline(always)]
    pub(crate) fn chained(self) -> *mut u8 {
        debug_assert!(self.is_dead());
        self.link()
    }

    /// Returns `true` if the node has been replaced. Pairs with [`mark_dead`](Node::mark_dead).
    #[inline(always)]
    pub(crate) fn is_dead(self) -> bool {
        self.cells.first_word().load(Ordering::Acquire).addr() & DEAD != 0
    }
}
