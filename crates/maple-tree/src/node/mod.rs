//! Nodes: 256 bytes, 256-aligned, reached through a word whose low bits tell their kind.
//!
//! A node covers a run of indices, `min..=max`, that its parent (or, for the root, the key space)
//! decides; the node itself does not hold these bounds. Slot `i` covers `pivot[i-1]+1..=pivot[i]`,
//! the first slot starts at `min`, the last one used (`end`) reaches to `max`:
//!
//! ```text
//!   leaf, range   | parent, end | pivot × (n-1) | slot × n |              n = 16 for 64-bit widths
//!   gap           | parent, end | pivot × (n-1) | slot × n | gap × n |    n = 10
//! ```
//!
//! * In a leaf a slot holds an entry, or NULL for a hole. In the other kinds it holds a child, and in
//!   a gap node `gap[i]` is the size of the largest hole below slot `i`.
//! * Pivots from `end` on are [`Key::MAX`], slots after `end` are NULL. A search therefore counts
//!   the pivots below the key over the whole array, without a branch and without knowing `end`.
//! * The first word is the parent's address, 0 for the root; its low five bits are `end`, the next says
//!   that the node has been replaced: it is *dead*. The address then leads to the next dead node instead, so
//!   that dead nodes form a list without any other memory, and without a change to what
//!   readers that are still in them read.
//!
//! # Who may touch what
//!
//! Slots and the first word are atomic. Pivots and gaps are plain memory: they are written only while
//! no reader can reach the node ([`NodeMut`]), with one exception: gaps, which only writers read, are
//! changed in place in a reachable node. A reachable node's `end` is never changed either, only
//! its parent.
//!
//! What this module does *not* know: bounds, holes that neighbour each other, how full a node
//! should be. Indices passed in come from searches and from plans, and are below the capacity;
//! debug builds assert it.

mod bits;
#[cfg_attr(loom, path = "cells_loom.rs")]
mod cells;
mod count;
mod dead;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::atomic::Ordering;
use crate::key::Key;
use crate::shape::Shape;
use cells::Cells;

pub(crate) use dead::DeadNodes;

/// What a slot or a root holds: an entry, or a tagged pointer to a node.
pub(crate) type Word = *mut ();

/// No entry, or no node.
pub(crate) const NULL: Word = ptr::null_mut();

/// Bytes in a node, and its alignment.
pub(crate) const NODE_BYTES: usize = 256;

/// What a node takes: the checker's words are larger.
const NODE_MEMORY: usize = if cfg!(loom) { 2048 } else { NODE_BYTES };

const WORD: usize = size_of::<Word>();
/// Low bits of a node's first word: `end`.
const END_MASK: usize = 0x1f;
/// The bit of a node's first word that says that the node is dead.
const DEAD: usize = 0x20;
/// Low bits of a word that points to a node, beside the kind.
const NODE_TAG: usize = 0b10;
const NODE_TAG_MASK: usize = 0b11;
const KIND_SHIFT: u32 = 2;
const TAG_BITS: usize = NODE_BYTES - 1;
/// A word below this is an entry, whatever its low bits (no node lives in the first page). It
/// leaves room for reserved entries.
const LOWEST_NODE: usize = 4096;

/// The kinds of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Holds entries.
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

/// The layout of nodes for keys `K` and slot limit `S`.
pub(crate) struct Geometry<K, S>(PhantomData<fn() -> (K, S)>);

const fn align_to_word(n: usize) -> usize {
    n.next_multiple_of(WORD)
}

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

impl<K: Key, S: Shape> Geometry<K, S> {
    const KEY: usize = size_of::<K>();

    /// The most slots that fit beside one pivot fewer, the first word, and `gap_bytes` a slot.
    const fn fit(gap_bytes: usize) -> usize {
        let mut n = 1;
        loop {
            let next = n + 1;
            let bytes =
                align_to_word(WORD + (next - 1) * Self::KEY) + next * WORD + next * gap_bytes;
            // Five bits hold the end.
            if bytes > NODE_BYTES || next > END_MASK + 1 {
                return n;
            }
            n = next;
        }
    }

    /// Slots in leaf and range nodes.
    pub(crate) const SLOTS: usize = min(Self::fit(0), S::LIMIT);
    /// Slots in gap nodes.
    pub(crate) const GAP_SLOTS: usize = min(Self::fit(Self::KEY), S::LIMIT);

    const PIVOT_AT: usize = WORD;
    const SLOT_AT: usize = align_to_word(Self::PIVOT_AT + (Self::SLOTS - 1) * Self::KEY);
    const GAP_SLOT_AT: usize = align_to_word(Self::PIVOT_AT + (Self::GAP_SLOTS - 1) * Self::KEY);
    const GAP_AT: usize = Self::GAP_SLOT_AT + Self::GAP_SLOTS * WORD;

    /// Slots in a node of a kind.
    #[inline(always)]
    pub(crate) const fn slots(kind: Kind) -> usize {
        match kind {
            Kind::Leaf | Kind::Range => Self::SLOTS,
            Kind::Gap => Self::GAP_SLOTS,
        }
    }

    /// The fewest used slots in a node of a kind, except the root and the last node of each
    /// level. Three eighths full: low enough that neither half of a split, nor of a rebalanced
    /// pair, is near it.
    #[inline(always)]
    pub(crate) const fn least(kind: Kind) -> usize {
        let n = Self::slots(kind) * 3 / 8;
        if n < 2 { 2 } else { n }
    }
}

/// How far apart the pivots are that the first stage of a search looks at.
struct Stride<K, S>(PhantomData<fn() -> (K, S)>);

impl<K: Key, S: Shape> Stride<K, S> {
    const NODE: usize = Self::of(Geometry::<K, S>::SLOTS);
    const GAP_NODE: usize = Self::of(Geometry::<K, S>::GAP_SLOTS);

    /// The stride that takes the fewest comparisons in a node of `slots`; of two that take as many, one that divides
    /// it, then the larger.
    const fn of(slots: usize) -> usize {
        let mut best = slots;
        let mut least = usize::MAX;
        let mut stride = slots;
        while stride > 1 {
            let cost =
                2 * ((slots - 1) / stride + stride - 1) + !slots.is_multiple_of(stride) as usize;
            if cost < least {
                best = stride;
                least = cost;
            }
            stride -= 1;
        }
        best
    }
}

/// What a node's memory must be like.
pub(crate) const LAYOUT: Layout = match Layout::from_size_align(NODE_MEMORY, NODE_BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// Whether `word` in a root is a node rather than an entry.
#[inline(always)]
pub(crate) fn is_node(word: Word) -> bool {
    let addr = word.addr();
    addr & NODE_TAG_MASK == NODE_TAG && addr >= LOWEST_NODE
}

/// Whether a node's tagged pointer is that of a leaf.
#[inline(always)]
pub(crate) fn is_leaf_word(word: Word) -> bool {
    word.addr() & (0b11 << KIND_SHIFT) == (Kind::Leaf as usize) << KIND_SHIFT
}

/// A node that may be read: it stays allocated for as long as the handle is used.
pub(crate) struct Node<K, S> {
    cells: Cells<K, S>,
    kind: Kind,
}

impl<K, S> Clone for Node<K, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, S> Copy for Node<K, S> {}

impl<K: Key, S: Shape> PartialEq for Node<K, S> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.block() == other.block()
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// The node that a word points to.
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
            _ => Kind::Gap,
        };
        let base = word.cast::<u8>().map_addr(|a| a & !TAG_BITS);
        // SAFETY: nodes are not at address 0, and the tag is in the low bits only; the node is allocated (the
        // caller's promise).
        unsafe {
            Self {
                cells: Cells::new(NonNull::new_unchecked(base)),
                kind,
            }
        }
    }

    /// The node that a word points to, which is of this kind.
    ///
    /// # Safety
    ///
    /// As for [`from_word`](Node::from_word), and the word's kind is `kind`.
    #[inline(always)]
    pub(crate) unsafe fn of_kind(word: Word, kind: Kind) -> Self {
        let tag = NODE_TAG | ((kind as usize) << KIND_SHIFT);
        debug_assert!(is_node(word) && word.addr() & TAG_BITS == tag);
        // A subtraction, unlike a mask, goes into the offsets of what is read from the node.
        let base = word.cast::<u8>().wrapping_sub(tag);
        // SAFETY: as in `from_word`.
        unsafe {
            Self {
                cells: Cells::new(NonNull::new_unchecked(base)),
                kind,
            }
        }
    }

    /// The tagged pointer that leads here.
    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        let tag = NODE_TAG | ((self.kind as usize) << KIND_SHIFT);
        self.block().as_ptr().map_addr(|a| a | tag).cast()
    }

    /// The node's memory.
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

    /// The same node, which is a leaf: what is done with it need not look at its kind.
    #[inline(always)]
    pub(crate) fn as_leaf(self) -> Self {
        debug_assert!(self.is_leaf());
        Self {
            cells: self.cells,
            kind: Kind::Leaf,
        }
    }

    /// How many slots the node has room for.
    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        Geometry::<K, S>::slots(self.kind)
    }

    /// The last used slot.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.cells.first_word().load(Ordering::Relaxed).addr() & END_MASK
    }

    /// How many slots are used: `end() + 1`.
    #[inline(always)]
    pub(crate) fn used(self) -> usize {
        self.end() + 1
    }

    /// The upper bound of slot `i`: meaningful below `end()`, [`Key::MAX`] from there on.
    #[inline(always)]
    pub(crate) fn pivot(self, i: usize) -> K {
        debug_assert!(i + 1 < self.capacity());
        // SAFETY: `i` is below the number of pivots, which are not written while the node can be reached by anybody but
        // the writer.
        unsafe { self.cells.pivot(i) }
    }

    /// The last index of slot `i` in a node that ends at `max`.
    #[inline(always)]
    pub(crate) fn last(self, i: usize, max: K) -> K {
        if i + 1 < self.capacity() {
            self.pivot(i).min(max)
        } else {
            max
        }
    }

    /// The first index of slot `i` in a node that starts at `min`.
    #[inline(always)]
    pub(crate) fn first(self, i: usize, min: K) -> K {
        if i == 0 {
            min
        } else {
            self.pivot(i - 1).wrapping_add(K::ONE)
        }
    }

    /// The word in slot `i`. Pairs with the store that published it.
    #[inline(always)]
    pub(crate) fn slot(self, i: usize) -> Word {
        debug_assert!(i < self.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.cells.slot(self.kind, i) }.load(Ordering::Acquire)
    }

    /// Which slots of a leaf hold entries: bit `i` for slot `i`.
    ///
    /// # Safety
    ///
    /// Nobody writes the node's slots meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn entries(self) -> u32 {
        debug_assert!(self.is_leaf());
        // SAFETY: slots are words, and nobody writes them (the caller's promise). Those after the end are NULL.
        unsafe { bits::entries(self.cells) }
    }

    /// Publishes a word in slot `i`: whoever reads it sees all that was written before.
    #[inline(always)]
    pub(crate) fn publish(self, i: usize, word: Word) {
        debug_assert!(i < self.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.cells.slot(self.kind, i) }.store(word, Ordering::Release);
    }

    /// The child in slot `i`.
    #[inline(always)]
    pub(crate) fn child(self, i: usize) -> Self {
        debug_assert!(!self.is_leaf());
        // SAFETY: used slots of range and gap nodes hold children, which live as long as what
        // points to them; a reader's guard keeps both.
        unsafe { Self::from_word(self.slot(i)) }
    }

    /// The slot whose range contains `key`, which is within the node's bounds.
    #[inline(always)]
    pub(crate) fn search(self, key: K) -> usize {
        match self.kind {
            Kind::Leaf | Kind::Range => self.count_below::<false>(key),
            Kind::Gap => self.count_below::<true>(key),
        }
    }

    /// How many pivots are below `key`, in two stages: every `STRIDE`th pivot tells the group of slots, the
    /// pivots within that group the slot. Trip counts are constants and no branch depends on data: a mispredicted exit
    /// would cost more than the comparisons. Six comparisons of fifteen pivots, five of nine.
    #[inline(always)]
    fn count_below<const GAP: bool>(self, key: K) -> usize {
        let (slots, stride) = if GAP {
            (Geometry::<K, S>::GAP_SLOTS, Stride::<K, S>::GAP_NODE)
        } else {
            (Geometry::<K, S>::SLOTS, Stride::<K, S>::NODE)
        };
        // In 32 bits: with a machine word the compiler multiplies each comparison's result by the slot's width and
        // adds them up one by one, which takes twice the instructions.
        let mut groups = 0u32;
        let mut i = stride - 1;
        while i < slots - 1 {
            // SAFETY: as in `pivot`.
            groups += u32::from(unsafe { self.cells.pivot(i) } < key);
            i += stride;
        }
        let mut at = groups as usize * stride;
        if !slots.is_multiple_of(stride) {
            // The last group is short. Where it starts earlier, pivots that are known to be below `key` are counted.
            at = at.min(slots - stride);
        }
        // Where a sum goes into an address, each of its terms is moved there by an instruction of its own, if the compiler
        // can see them. As a sum, a comparison takes two instructions rather than four.
        let at = bits::opaque(at);
        let mut within = 0u32;
        for i in 0..stride - 1 {
            // SAFETY: as in `pivot`: `at` is at most `slots - stride`.
            within += u32::from(unsafe { self.cells.pivot(at + i) } < key);
        }
        bits::opaque(at + within as usize)
    }

    /// The size of the largest hole below slot `i` of a gap node. Only for whoever may write the tree.
    #[inline(always)]
    pub(crate) fn gap(self, i: usize) -> K {
        debug_assert!(i < self.capacity() && self.kind == Kind::Gap);
        // SAFETY: `i` is below the capacity; gaps are only accessed by the writer.
        unsafe { self.cells.gap(i) }
    }

    /// Below which slots of a gap node there are holes of `size`, which is not 0: bit `i` for slot `i`. Only for whoever may write
    /// the tree.
    #[inline(always)]
    pub(crate) fn fits(self, size: K) -> u32 {
        debug_assert!(self.kind == Kind::Gap && size > K::MIN);
        // Subtracted: a sum is taken for an `or` of bits, which takes more instructions.
        let mut small = 0u32;
        for i in (0..Geometry::<K, S>::GAP_SLOTS).rev() {
            // SAFETY: as in `gap`. Slots after the end have gaps of size 0.
            let bit = u32::from(unsafe { self.cells.gap(i) } < size);
            small = small.wrapping_add(small).wrapping_sub(bit);
        }
        let small = small.wrapping_neg();
        !small & (u32::MAX >> (32 - Geometry::<K, S>::GAP_SLOTS))
    }

    /// Which used slots of a leaf are holes: bit `i` for slot `i`. Only for whoever may write the tree.
    #[inline(always)]
    pub(crate) fn holes(self) -> u32 {
        // SAFETY: nobody else writes.
        !unsafe { self.entries() } & (u32::MAX >> (31 - self.end()))
    }

    /// Notes the size of the largest hole below slot `i` of a gap node. Only for whoever may write the tree.
    #[inline(always)]
    pub(crate) fn set_gap(self, i: usize, gap: K) {
        debug_assert!(i < self.capacity() && self.kind == Kind::Gap);
        // SAFETY: as in `gap`.
        unsafe { self.cells.set_gap(i, gap) }
    }

    /// The address in the first word: the parent's, or the next dead node's.
    #[inline(always)]
    fn link(self) -> *mut u8 {
        let word = self.cells.first_word().load(Ordering::Relaxed);
        word.cast::<u8>().map_addr(|a| a & !TAG_BITS)
    }

    /// Whether `other` is this node's parent.
    #[inline(always)]
    pub(crate) fn is_child_of(self, other: Self) -> bool {
        self.link().addr() == other.block().addr().get() && !self.is_dead()
    }

    /// The parent, or `None` for the root. `inner` is the kind of inner nodes in this tree. The
    /// node is not dead.
    #[inline(always)]
    pub(crate) fn parent(self, inner: Kind) -> Option<Self> {
        debug_assert!(!self.is_dead());
        let base = NonNull::new(self.link())?;
        // SAFETY: parents live as long as their children are in the tree; only the writer asks.
        let cells = unsafe { Cells::new(base) };
        Some(Self { cells, kind: inner })
    }

    /// Links the node to its parent, or makes it the root.
    #[inline(always)]
    pub(crate) fn set_parent(self, parent: Option<Self>) {
        let parent = parent.map_or(ptr::null_mut(), |p| p.block().as_ptr());
        let cell = self.cells.first_word();
        // Readers look at the other bits only, which stay what they were.
        let end = cell.load(Ordering::Relaxed).addr() & END_MASK;
        cell.store(parent.map_addr(|a| a | end).cast(), Ordering::Relaxed);
    }

    /// A node that is only to be marked and chained.
    ///
    /// # Safety
    ///
    /// `base` is the memory of a node, which stays allocated while the handle is used.
    #[inline(always)]
    pub(crate) unsafe fn from_block(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        let cells = unsafe { Cells::new(base) };
        Self {
            cells,
            kind: Kind::Leaf,
        }
    }

    /// Marks the node as replaced.
    #[inline(always)]
    pub(crate) fn mark_dead(self) {
        let cell = self.cells.first_word();
        let word = cell.load(Ordering::Relaxed);
        cell.store(word.map_addr(|a| a | DEAD), Ordering::Release);
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

    /// Whether the node has been replaced. Pairs with [`mark_dead`](Node::mark_dead).
    #[inline(always)]
    pub(crate) fn is_dead(self) -> bool {
        self.cells.first_word().load(Ordering::Acquire).addr() & DEAD != 0
    }

    /// The right to change pivots and the end.
    ///
    /// # Safety
    ///
    /// No reader can reach the node (it is not published yet, or the tree has no concurrent
    /// readers), and the caller is the only writer.
    #[inline(always)]
    pub(crate) unsafe fn write(self) -> NodeMut<K, S> {
        NodeMut { node: self }
    }
}

/// A node that no reader can reach: everything in it may be changed.
pub(crate) struct NodeMut<K, S> {
    node: Node<K, S>,
}

impl<K, S> Clone for NodeMut<K, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, S> Copy for NodeMut<K, S> {}

impl<K: Key, S: Shape> NodeMut<K, S> {
    /// Makes a node of a kind out of fresh memory: no parent, one used slot, all of them NULL.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`] that nobody else uses.
    #[inline]
    pub(crate) unsafe fn init(block: NonNull<u8>, kind: Kind) -> Self {
        // SAFETY: the caller's promise.
        let cells = unsafe { Cells::new(block) };
        // SAFETY: nobody else uses the memory (the caller's promise).
        unsafe { cells.init(kind) };
        Self {
            node: Node { cells, kind },
        }
    }

    /// Makes a copy of a node that is not dead out of fresh memory, parent included.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`] that nobody else uses.
    #[inline]
    pub(crate) unsafe fn copy(block: NonNull<u8>, old: Node<K, S>) -> Self {
        debug_assert!(!old.is_dead());
        // SAFETY: the caller's promise.
        let cells = unsafe { Cells::new(block) };
        // SAFETY: nobody else uses the memory (the caller's promise); only the writer writes to a node, and only it copies one.
        unsafe { cells.copy_from(old.cells) };
        let kind = old.kind;
        Self {
            node: Node { cells, kind },
        }
    }

    #[inline(always)]
    pub(crate) fn node(self) -> Node<K, S> {
        self.node
    }

    /// Sets the upper bound of slot `i`.
    #[inline(always)]
    pub(crate) fn set_pivot(self, i: usize, pivot: K) {
        debug_assert!(i + 1 < self.node.capacity());
        // SAFETY: `i` is below the number of pivots, and nobody reads (promise of `write`).
        unsafe { self.node.cells.set_pivot(i, pivot) }
    }

    /// Puts a word into slot `i`.
    #[inline(always)]
    pub(crate) fn set_slot(self, i: usize, word: Word) {
        debug_assert!(i < self.node.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.node.cells.slot(self.node.kind, i) }.store(word, Ordering::Relaxed);
    }

    /// Sets the last used slot.
    #[inline(always)]
    pub(crate) fn set_end(self, end: usize) {
        debug_assert!(end < self.node.capacity());
        let cell = self.node.cells.first_word();
        let word = cell
            .load(Ordering::Relaxed)
            .map_addr(|a| (a & !END_MASK) | end);
        cell.store(word, Ordering::Relaxed);
    }

    /// Keeps the first `used` slots, of which there is at least one, and clears the others.
    pub(crate) fn truncate(self, used: usize) {
        self.shift(self.node.end() + 1, used);
    }

    /// Moves the slots `from..=end` (with what bounds them above, and their gaps) so that they start
    /// at `to`, sets the new end, and clears what is left over. Slots between `from` and `to`, when
    /// these move upwards, keep stale contents: the caller fills them.
    #[inline]
    pub(crate) fn shift(self, from: usize, to: usize) {
        let node = self.node;
        let end = node.end();
        debug_assert!(from <= end + 1);
        let count = end + 1 - from;
        let new_end = (to + count).wrapping_sub(1);
        debug_assert!(new_end < node.capacity());
        let pivots = node.capacity() - 1;
        let keep = count.min(pivots.saturating_sub(from.max(to)));
        // SAFETY: both ranges are within the arrays (the pivot of the last slot, if it moves beyond the
        // array, is not moved), and nobody else accesses the node (promise of `write`).
        unsafe { node.cells.shift(node.kind, from, to, count, keep) };
        for i in new_end.wrapping_add(1)..=end {
            self.set_slot(i, NULL);
            if node.kind == Kind::Gap {
                node.set_gap(i, K::MIN);
            }
        }
        for i in new_end..=end {
            if i < pivots {
                self.set_pivot(i, K::MAX);
            }
        }
        self.set_end(new_end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Fanout, Native};

    #[test]
    fn fanouts_fill_256_bytes() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(Geometry::<u64, Native>::SLOTS, 16);
            assert_eq!(Geometry::<u64, Native>::GAP_SLOTS, 10);
            assert_eq!(Geometry::<u32, Native>::SLOTS, 21);
            assert_eq!(Geometry::<u32, Native>::GAP_SLOTS, 15);
            assert_eq!(Geometry::<u128, Native>::SLOTS, 11);
            assert_eq!(Geometry::<u128, Native>::GAP_SLOTS, 6);
        } else {
            assert_eq!(Geometry::<u32, Native>::SLOTS, 32);
            assert_eq!(Geometry::<u32, Native>::GAP_SLOTS, 21);
        }
        assert_eq!(Geometry::<u64, Fanout<4>>::SLOTS, 4);
        assert_eq!(Geometry::<u64, Fanout<4>>::GAP_SLOTS, 4);
    }

    /// Finds the slot of every key in nodes with every number of slots in use.
    #[cfg(not(loom))]
    fn search_all<K: Key, S: Shape>() {
        for kind in [Kind::Leaf, Kind::Range, Kind::Gap] {
            for used in 1..=Geometry::<K, S>::slots(kind) {
                let mut memory = std::boxed::Box::new(Memory([0; NODE_BYTES]));
                let block = NonNull::from(&mut *memory).cast();
                // SAFETY: the memory has the layout of a node, and nobody else uses it.
                let node = unsafe { NodeMut::<K, S>::init(block, kind) };
                // Slot `i` ends at `2 * i + 1`.
                let mut pivot = K::ONE;
                for i in 0..used - 1 {
                    node.set_pivot(i, pivot);
                    pivot = pivot.wrapping_add(K::ONE).wrapping_add(K::ONE);
                }
                node.set_end(used - 1);
                let mut key = K::MIN;
                for n in 0..2 * used {
                    assert_eq!(node.node().search(key), n / 2, "{used} slots, {kind:?}");
                    key = key.wrapping_add(K::ONE);
                }
                assert_eq!(node.node().search(K::MAX), used - 1);
            }
        }
    }

    #[cfg(not(loom))]
    #[repr(align(256))]
    struct Memory(#[expect(dead_code, reason = "it is there to take up room")] [u8; NODE_BYTES]);

    #[test]
    #[cfg(not(loom))]
    fn a_search_finds_every_slot() {
        search_all::<u32, Native>();
        search_all::<u64, Native>();
        search_all::<usize, Native>();
        search_all::<u128, Native>();
        search_all::<u64, Fanout<4>>();
        search_all::<u64, Fanout<5>>();
        search_all::<u32, Fanout<7>>();
        search_all::<u128, Fanout<8>>();
    }
}
