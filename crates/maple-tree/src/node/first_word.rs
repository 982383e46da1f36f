//! The first word of a node: its parent, and its replacement.

use core::ptr::{self, NonNull};

use crate::base::atomic::Ordering;
use crate::base::{Key, Shape};
#[cfg(samara_loom)]
use crate::node::IDLE_SLOTS;
use crate::node::{COUNTED, DEAD, END_MASK, Kind, Node, TAG_BITS, Word};

impl<K: Key, S: Shape> Node<K, S> {
    /// Returns the address in the first word: the parent's, or the next dead node's.
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

    /// Returns `true` if `above` is this node's parent, or, if it is `None`, the node has none.
    pub(crate) fn has_parent(self, above: Option<Self>) -> bool {
        match above {
            Some(above) => self.is_child_of(above),
            None => self.link().is_null(),
        }
    }

    /// Returns the parent, or `None` for the root. `inner` is the kind of inner nodes in this tree.
    /// The node must not be dead.
    #[inline(always)]
    pub(crate) fn parent(self, inner: Kind) -> Option<Self> {
        self.parent_in(self.first_word(), inner)
    }

    /// Returns the parent in a first word of this node, which was read while the node was neither
    /// dead nor counted.
    #[inline(always)]
    pub(super) fn parent_in(self, first_word: Word, inner: Kind) -> Option<Self> {
        debug_assert!(!self.is_dead() && first_word.addr() & COUNTED == 0);
        let base = NonNull::new(Self::address_in(first_word))?;
        // SAFETY: parents live as long as their children are in the tree, and only the writer calls
        // this.
        Some(unsafe { Self::at(base, inner) })
    }

    /// Sets the node's parent, or makes it the root.
    #[inline(always)]
    pub(crate) fn set_parent(self, parent: Option<Self>) {
        // Readers use only the other bits, which stay unchanged.
        let word = self.first_word_below(parent);
        self.cells.first_word().store(word, Ordering::Relaxed);
    }

    /// Returns the first word of a node that is neither dead nor counted.
    #[inline(always)]
    pub(crate) fn first_word(self) -> Word {
        self.cells.first_word().load(Ordering::Relaxed)
    }

    /// Returns the first word that the node, or a copy of it, has below a parent, or as the root.
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
            // So that the checker reports readers that access `idle`. SAFETY: within the node.
            unsafe { self.cells.use_last_slots(self.capacity(), IDLE_SLOTS) };
        }
    }

    /// Links a dead node to another. It has no parent any more, so that the address in its first
    /// word is free, and retiring a node takes no memory. Readers use the low bits only.
    #[inline(always)]
    pub(crate) fn link_dead(self, next: *mut u8) {
        debug_assert!(self.is_dead());
        let cell = self.cells.first_word();
        let low = cell.load(Ordering::Relaxed).addr() & TAG_BITS;
        cell.store(next.map_addr(|a| a | low).cast(), Ordering::Release);
    }

    /// Returns the node that a dead one was linked to.
    #[inline(always)]
    pub(crate) fn next_dead(self) -> *mut u8 {
        debug_assert!(self.is_dead());
        self.link()
    }

    /// Returns `true` if the node has been replaced. Pairs with [`mark_dead`](Node::mark_dead).
    #[inline(always)]
    pub(crate) fn is_dead(self) -> bool {
        self.cells.first_word().load(Ordering::Acquire).addr() & DEAD != 0
    }
}
