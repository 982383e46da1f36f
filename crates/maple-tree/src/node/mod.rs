//! Nodes: 256 bytes, 256-aligned, reached through a word whose low bits encode their kind.
//!
//! A node covers a run of indices, `min..=max`, that its parent (or, for the root, the key space)
//! decides. The node itself does not hold these bounds. Slot `i` covers `pivot[i-1]+1..=pivot[i]`.
//! The first slot starts at `min`, the last used one (`end`) extends to `max`:
//!
//! ```text
//!   leaf, range   | parent, end | pivot × (n-1) | slot × n |              n = 16 for 64-bit widths
//!   gap           | parent, end | pivot × (n-1) | slot × n | gap × n |    n = 10
//! ```
//!
//! * In a leaf a slot holds an entry, or NULL for a hole. In the other kinds it holds a child, and
//!   in a gap node `gap[i]` is the size of the largest hole below slot `i`.
//! * Pivots from `end` on are [`Key::MAX`], slots after `end` are NULL. A search therefore counts
//!   the pivots below the key over the whole array, without a branch and without knowing `end`.
//! * The first word is the parent's address, 0 for the root. Its low five bits are `end`. The next
//!   bit says that the node has been replaced: it is *dead*. The address is then that of the next
//!   dead node. Dead nodes thus form a list without any other memory, and without a change to what
//!   readers that are still in them read. A third bit says that the node is [counted](count):
//!   several trees may have references to it, and their number takes the place of the address.
//!
//! # Access rules
//!
//! Slots and the first word are atomic. Pivots and gaps are plain memory: they are written only
//! while no reader can reach the node ([`NodeMut`]), with one exception. Gaps, which only writers
//! read, are changed in place in a reachable node. A reachable node's `end` is never changed
//! either, only its parent.
//!
//! This module does *not* know bounds, adjacent holes, or how full a node should be. Indices passed
//! in come from searches and from plans, and are below the capacity. Debug builds assert it.

mod bits;
// The model checker has node memory of its own, in its workspace.
#[cfg_attr(samara_loom, path = "../../../../loom/maple-tree/cells.rs")]
mod cells;
mod count;
mod first_word;
mod geometry;
pub(crate) mod prefetch;
mod search;
pub(crate) mod tree;
mod wide;
mod write;

use core::alloc::Layout;
use core::hint::{select_unpredictable, unreachable_unchecked};
use core::ptr::{self, NonNull};

use crate::base::atomic::{Ordering, memory_of};
use crate::base::shape::MOST_SLOTS;
pub(crate) use crate::base::shape::NODE_BYTES;
use crate::base::{Key, Offset, Shape, Slot};
use cells::Cells;

pub(crate) use geometry::Geometry;
pub(crate) use tree::{RawTree, Root, flags};
pub(crate) use write::{NodeMut, Unread};

/// The contents of a slot or a root: an entry, or a tagged pointer to a node.
pub(crate) type Word = *mut ();

/// No entry, or no node.
pub(crate) const NULL: Word = ptr::null_mut();

/// The size of a node's memory. The model checker's words are larger.
const NODE_MEMORY: usize = if cfg!(samara_loom) { 2048 } else { NODE_BYTES };

const WORD: usize = size_of::<Word>();
/// The slots that a leaf loses if [`Node::idle`] is used, and their bytes. No reader accesses a
/// leaf's last slots before it knows that they are in use.
pub(crate) const IDLE_SLOTS: usize = 2;
const IDLE: usize = IDLE_SLOTS * WORD;
/// Its offset.
const IDLE_AT: usize = NODE_BYTES - IDLE;
/// The low bits of a node's first word: `end`.
const END_MASK: usize = MOST_SLOTS - 1;
/// The bit of a node's first word that marks it as dead.
const DEAD: usize = 0x20;
/// The bit of a node's first word that marks it as [counted](count): the word does not name the
/// parent.
const COUNTED: usize = 0x40;
/// The low bits of a word that points to a node, without the kind.
const NODE_TAG: usize = 0b10;
const NODE_TAG_MASK: usize = 0b11;
const KIND_SHIFT: u32 = 2;
const TAG_BITS: usize = NODE_BYTES - 1;
/// A word below this is an entry, whatever its low bits (no node is in the first page). It leaves
/// room for reserved entries.
const LOWEST_NODE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Leaf = 0,
    /// Holds children.
    Range = 1,
    /// Holds children and the size of the largest hole below each.
    Gap = 2,
}

impl Kind {
    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        matches!(self, Kind::Leaf)
    }
}

/// The layout of a node's memory.
pub(crate) const LAYOUT: Layout = match Layout::from_size_align(NODE_MEMORY, NODE_MEMORY) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// Returns `true` if `word` in a root is a node rather than an entry.
#[inline(always)]
pub(crate) fn is_node(word: Word) -> bool {
    let addr = word.addr();
    addr & NODE_TAG_MASK == NODE_TAG && addr >= LOWEST_NODE
}

#[inline(always)]
pub(crate) fn is_leaf_word(word: Word) -> bool {
    word.addr() & (0b11 << KIND_SHIFT) == (Kind::Leaf as usize) << KIND_SHIFT
}

/// A readable node, which stays allocated while the handle is used.
#[derive(Clone, Copy)]
pub(crate) struct Node<K, S> {
    cells: Cells<K, S>,
    kind: Kind,
}

// SAFETY: it is data; code that reads or writes the node has the tree.
unsafe impl<K, S> Send for Node<K, S> {}
// SAFETY: as above.
unsafe impl<K, S> Sync for Node<K, S> {}

impl<K: Key, S: Shape> PartialEq for Node<K, S> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.block() == other.block()
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// Returns the node that a word points to.
    ///
    /// # Safety
    ///
    /// `word` is the tagged pointer of a node of a tree with this `K` and `S`, which stays
    /// allocated while the handle and its copies are used.
    #[inline(always)]
    pub(crate) unsafe fn from_word(word: Word) -> Self {
        debug_assert!(is_node(word));
        let kind = match (word.addr() >> KIND_SHIFT) & 0b11 {
            0 => Kind::Leaf,
            1 => Kind::Range,
            2 => Kind::Gap,
            // SAFETY: no node's word has another kind (the caller's promise).
            _ => unsafe { unreachable_unchecked() },
        };
        let base = word.cast::<u8>().map_addr(|a| a & !TAG_BITS);
        // SAFETY: nodes are not at address 0, and the tag is in the low bits only. The node is
        // allocated (the caller's promise).
        unsafe { Self::at(NonNull::new_unchecked(base), kind) }
    }

    /// Returns the node of a kind at an address.
    ///
    /// # Safety
    ///
    /// `base` is the memory of a node, which stays allocated while the handle and its copies are
    /// used. Beyond the first word, the node is used only as a node of this kind.
    #[inline(always)]
    unsafe fn at(base: NonNull<u8>, kind: Kind) -> Self {
        // SAFETY: the caller's promise.
        let cells = unsafe { Cells::new(base) };
        Self { cells, kind }
    }

    /// Returns the node of this kind that a word points to.
    ///
    /// # Safety
    ///
    /// As for [`from_word`](Node::from_word), and the word's kind is `kind`.
    #[inline(always)]
    pub(crate) unsafe fn of_kind(word: Word, kind: Kind) -> Self {
        let tag = NODE_TAG | ((kind as usize) << KIND_SHIFT);
        debug_assert!(is_node(word) && word.addr() & TAG_BITS == tag);
        // A subtraction, unlike a mask, merges into the offsets of the node's fields.
        let base = word.cast::<u8>().wrapping_sub(tag);
        // SAFETY: as in `from_word`.
        unsafe { Self::at(NonNull::new_unchecked(base), kind) }
    }

    /// Returns the tagged pointer to this node.
    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        let tag = NODE_TAG | ((self.kind as usize) << KIND_SHIFT);
        self.block().as_ptr().map_addr(|a| a | tag).cast()
    }

    #[inline(always)]
    pub(crate) fn block(self) -> NonNull<u8> {
        self.cells.base()
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        self.kind
    }

    #[inline(always)]
    pub(crate) fn is_leaf(self) -> bool {
        self.kind.is_leaf()
    }

    /// Returns the same node as a known leaf, so that accesses need not branch on its kind.
    #[inline(always)]
    pub(crate) fn as_leaf(self) -> Self {
        debug_assert!(self.is_leaf());
        let kind = Kind::Leaf;
        Self { kind, ..self }
    }

    /// Returns the number of slots that the node has room for.
    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        Geometry::<K, S>::slots(self.kind)
    }

    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.cells.first_word().load(Ordering::Relaxed).addr() & END_MASK
    }

    /// Returns the number of used slots: `end() + 1`.
    #[inline(always)]
    pub(crate) fn used(self) -> usize {
        self.end() + 1
    }

    /// Returns the upper bound of slot `i`: meaningful below `end()`, [`Key::MAX`] from there on.
    #[inline(always)]
    pub(crate) fn pivot(self, i: usize) -> K {
        debug_assert!(i + 1 < self.capacity());
        // SAFETY: `i` is below the number of pivots, which are not written while a reader can reach
        // the node.
        unsafe { self.cells.pivot(i) }
    }

    /// Returns the last index of slot `i` in a node that ends at `max`.
    #[inline(always)]
    pub(crate) fn last(self, i: usize, max: K) -> K {
        let pivots = self.capacity() - 1;
        debug_assert!(i <= pivots && pivots > 0);
        // No branch on the first or last slot, here and in `first`: it would be unpredictable.
        let pivot = self.pivot(i.min(pivots - 1));
        select_unpredictable(i < pivots && pivot < max, pivot, max)
    }

    /// Returns the first index of slot `i` in a node that starts at `min`.
    #[inline(always)]
    pub(crate) fn first(self, i: usize, min: K) -> K {
        let before = self.pivot(i.saturating_sub(1));
        select_unpredictable(i == 0, min, before.wrapping_add(K::ONE))
    }

    /// Returns the word in slot `i`. Pairs with the store that published it.
    #[inline(always)]
    pub(crate) fn slot(self, i: usize) -> Word {
        debug_assert!(i < self.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.cells.slot(self.kind, i) }.load(Ordering::Acquire)
    }

    /// Returns the address of the word in slot `i`. Only with exclusive access to the tree.
    #[inline(always)]
    pub(crate) fn slot_memory(self, i: usize) -> Slot {
        debug_assert!(i < self.capacity());
        // SAFETY: `i` is below the capacity.
        memory_of(unsafe { self.cells.slot(self.kind, i) })
    }

    /// Returns the slots of a leaf that hold entries: bit `i` for slot `i`.
    ///
    /// # Safety
    ///
    /// Nothing writes the node's slots during the call.
    #[inline(always)]
    pub(crate) unsafe fn entries(self) -> u32 {
        debug_assert!(self.is_leaf());
        // SAFETY: slots are words, and nothing writes them (the caller's promise). Those after the
        // end are NULL.
        unsafe { bits::entries(self.cells) }
    }

    /// Copies a leaf's whole arrays: pivots to `pivots`, one fewer than slots, and words to
    /// `words`.
    ///
    /// # Safety
    ///
    /// Nothing writes the node during the call. Both destinations have room for all, and nothing
    /// else uses them.
    #[inline(always)]
    pub(crate) unsafe fn copy_out(self, pivots: *mut K, words: *mut Word) {
        debug_assert!(self.is_leaf());
        // SAFETY: the caller's promises.
        unsafe { self.cells.copy_leaf(pivots, words) }
    }

    /// Publishes a word in slot `i`: a reader that loads it sees all earlier writes.
    #[inline(always)]
    pub(crate) fn publish(self, i: usize, word: Word) {
        debug_assert!(i < self.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.cells.slot(self.kind, i) }.store(word, Ordering::Release);
    }

    /// Returns the child in slot `i`.
    #[inline(always)]
    pub(crate) fn child(self, i: usize) -> Self {
        debug_assert!(!self.is_leaf());
        // SAFETY: used slots of range and gap nodes hold children, which live as long as what
        // points to them. A reader's guard keeps both alive.
        unsafe { Self::from_word(self.slot(i)) }
    }

    /// Returns the size of the largest hole below slot `i` of a gap node. Only for the writer.
    #[inline(always)]
    pub(crate) fn gap(self, i: usize) -> K {
        debug_assert!(i < self.capacity() && self.kind == Kind::Gap);
        // SAFETY: `i` is below the capacity; gaps are only accessed by the writer.
        unsafe { self.cells.gap(i) }
    }

    /// Returns the slots of a gap node below which there are holes of more than `others` indices:
    /// bit `i` for slot `i`. Only for the writer.
    #[inline(always)]
    pub(crate) fn fits(self, others: K) -> u32 {
        debug_assert!(self.kind == Kind::Gap);
        // SAFETY: as in `gap`. Slots after the end have gaps of size 0.
        let fits = |i| others < unsafe { self.cells.gap(i) };
        bits::of(Geometry::<K, S>::GAP_SLOTS, fits)
    }

    /// Returns the used slots of a leaf that are holes: bit `i` for slot `i`. Only for the writer.
    #[inline(always)]
    pub(crate) fn holes(self) -> u32 {
        // SAFETY: nothing else writes.
        !unsafe { self.entries() } & (u32::MAX >> (31 - self.end()))
    }

    /// Sets the size of the largest hole below slot `i` of a gap node. Only for the writer.
    #[inline(always)]
    pub(crate) fn set_gap(self, i: usize, gap: K) {
        debug_assert!(i < self.capacity() && self.kind == Kind::Gap);
        // SAFETY: as in `gap`.
        unsafe { self.cells.set_gap(i, gap) }
    }

    /// Returns a node that is only marked and linked.
    ///
    /// # Safety
    ///
    /// `base` is the memory of a node, which stays allocated while the handle is used.
    #[inline(always)]
    pub(crate) unsafe fn from_block(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::at(base, Kind::Leaf) }
    }

    /// Takes the node as plain memory, so that the checker reports readers whose accesses may not
    /// be over.
    #[cfg(samara_loom)]
    pub(crate) fn use_up(self) {
        // SAFETY: the node is allocated; the checker finds other users.
        unsafe { self.cells.use_up() };
    }

    /// Returns the last two words of the node's memory, or `None` if readers may access them.
    /// Readers do not if the words are slots after the node's end, which does not change while a
    /// reader can be there, or, in a gap node, gaps.
    #[inline(always)]
    pub(crate) fn idle(self) -> Option<NonNull<u8>> {
        const {
            let slots = Geometry::<K, S>::SLOT_AT + (Geometry::<K, S>::SLOTS - IDLE_SLOTS) * WORD;
            let gap_slots = Geometry::<K, S>::GAP_SLOT_AT + Geometry::<K, S>::GAP_SLOTS * WORD;
            assert!(slots <= IDLE_AT && gap_slots <= IDLE_AT);
        };
        let free = Geometry::<K, S>::SLOTS.saturating_sub(self.used());
        // SAFETY: the offset is within the node.
        (free >= IDLE_SLOTS).then(|| unsafe { self.block().add(IDLE_AT) })
    }
}
