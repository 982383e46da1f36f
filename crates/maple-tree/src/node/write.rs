//! Changing a node that no reader can reach.

use core::ptr::NonNull;

use crate::base::atomic::Ordering;
use crate::base::{Key, Shape};
use crate::node::{END_MASK, Kind, NULL, Node, Word, bits};

/// The right to change nodes in place: its owner is the only writer, and no reader can reach the
/// nodes.
#[derive(Clone, Copy)]
pub(crate) struct Unread(());

impl Unread {
    /// # Safety
    ///
    /// While this or a copy of it is used, the caller is the only writer, and no reader can reach
    /// the nodes that it changes: they are not published yet, or the tree has no concurrent
    /// readers.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// Returns a handle that can change the whole node.
    #[inline(always)]
    pub(crate) fn write(self, Unread(()): Unread) -> NodeMut<K, S> {
        NodeMut { node: self }
    }
}

/// A node that no reader can reach: all of it may change.
#[derive(Clone, Copy)]
pub(crate) struct NodeMut<K, S> {
    node: Node<K, S>,
}

impl<K: Key, S: Shape> NodeMut<K, S> {
    /// Initialises fresh memory as a node of a kind: no parent, one used slot, all slots NULL.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`](super::LAYOUT) that nothing else uses.
    #[inline]
    pub(crate) unsafe fn init(block: NonNull<u8>, kind: Kind) -> Self {
        // SAFETY: nothing else uses the memory (the caller's promise).
        let node = unsafe { Node::at(block, kind) };
        // SAFETY: as above.
        unsafe { node.cells.init(kind) };
        Self { node }
    }

    /// Initialises fresh memory as a copy of a node that is not dead, with another first word. In
    /// trees that share nodes, the children's counts are not raised.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`](super::LAYOUT) that nothing else uses. Nothing writes the
    /// old node during the call, except for its count.
    #[inline]
    pub(crate) unsafe fn copy(block: NonNull<u8>, old: Node<K, S>, first_word: Word) -> Self {
        debug_assert!(!old.is_dead());
        // SAFETY: nothing else uses the memory (the caller's promise).
        let node = unsafe { Node::at(block, old.kind) };
        // SAFETY: as above.
        unsafe { node.cells.copy_from(old.cells, first_word) };
        Self { node }
    }

    #[inline(always)]
    pub(crate) fn node(self) -> Node<K, S> {
        self.node
    }

    #[inline(always)]
    pub(crate) fn set_pivot(self, i: usize, pivot: K) {
        debug_assert!(i + 1 < self.node.capacity());
        // SAFETY: `i` is below the number of pivots, and nothing reads (promise of `Unread`).
        unsafe { self.node.cells.set_pivot(i, pivot) }
    }

    #[inline(always)]
    pub(crate) fn set_slot(self, i: usize, word: Word) {
        debug_assert!(i < self.node.capacity());
        // SAFETY: `i` is below the capacity.
        unsafe { self.node.cells.slot(self.node.kind, i) }.store(word, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_end(self, end: usize) {
        debug_assert!(end < self.node.capacity());
        let cell = self.node.cells.first_word();
        let word = cell
            .load(Ordering::Relaxed)
            .map_addr(|a| (a & !END_MASK) | end);
        cell.store(word, Ordering::Relaxed);
    }

    #[inline(always)]
    fn as_leaf(self) -> Self {
        let node = self.node.as_leaf();
        Self { node }
    }

    /// Moves `count` slots from `from` on, with their pivots and gaps, to slot `to` and on. The
    /// end, and the old contents elsewhere, stay unchanged.
    #[inline]
    pub(crate) fn slide(self, from: usize, to: usize, count: usize) {
        let node = self.node;
        debug_assert!(from.max(to) + count <= node.capacity());
        let pivots = (node.capacity() - 1).saturating_sub(from.max(to));
        // SAFETY: all are within the arrays (the last slot's pivot, if it would move beyond the
        // array, is not moved), and nothing else accesses the node (promise of `Unread`).
        unsafe {
            node.cells
                .shift(node.kind, from, to, count, count.min(pivots))
        };
    }

    /// Moves the slots of a leaf from `at` (one of its slots, or the next) to `end`, its last,
    /// upwards with their pivots, so that the last is `new_end`. The slots between keep their
    /// contents.
    #[inline(always)]
    pub(crate) fn open(self, at: usize, end: usize, new_end: usize) {
        debug_assert!(self.node.is_leaf() && at <= end + 1 && end <= new_end);
        debug_assert!(new_end < self.node.capacity());
        if new_end != end {
            if at <= end {
                // SAFETY: both ranges are within the arrays (the last slot has no pivot), and
                // nothing else accesses the node (promise of `Unread`).
                unsafe {
                    let (cells, to) = (self.node.cells, at + (new_end - end));
                    cells.shift(Kind::Leaf, at, to, end + 1 - at, end - at);
                }
            }
            self.set_end(new_end);
        }
    }

    /// Makes slot `at` of a leaf, whose last is `end`, a hole. Joins it with the slot before if
    /// that is a hole (`left`), and with the one after (`right`).
    #[inline(always)]
    pub(crate) fn close(self, at: usize, left: bool, right: bool, end: usize) {
        let from = at + usize::from(right);
        let to = at - usize::from(left);
        debug_assert!(from <= end);
        if from != to {
            self.close_up(from, to, end);
        }
        self.set_slot(to, NULL);
    }

    /// Moves the slots of a leaf from `from` (one of its slots, or the next) to `end`, its last,
    /// down with their pivots, so that the first is `to`.
    #[inline(never)]
    pub(crate) fn close_up(self, from: usize, to: usize, end: usize) {
        // Out of line, the kind is not known otherwise.
        let leaf = self.as_leaf();
        if from > to {
            leaf.slide(from, to, end + 1 - from);
            leaf.shorten(end + 1 - (from - to), end + 1);
        }
    }

    /// Sets the number of used slots of a leaf to the first `used`, of `before`.
    #[inline(never)]
    pub(crate) fn set_used(self, used: usize, before: usize) {
        self.as_leaf().shorten(used, before.max(used));
    }

    /// Does what [`set_used`](Self::set_used) does, inlined, for any node without gaps. If the
    /// number grows, nothing is cleared.
    #[inline(always)]
    fn shorten(self, used: usize, before: usize) {
        let pivots = self.node.capacity() - 1;
        // Mostly one or two. The opaque counters keep the compiler from calling `memset`, which
        // would take longer.
        let mut i = used;
        while i < before {
            self.set_slot(i, NULL);
            i = bits::opaque(i + 1);
        }
        let mut i = used - 1;
        while i < before.min(pivots) {
            self.set_pivot(i, K::MAX);
            i = bits::opaque(i + 1);
        }
        self.set_end(used - 1);
    }

    /// Moves the slots `from..=end` (with their pivots and gaps) so that they start at `to`, sets
    /// the new end, and clears what is left over. If the slots move upwards, those between `from`
    /// and `to` keep stale contents: the caller fills them.
    #[inline]
    pub(crate) fn shift(self, from: usize, to: usize) {
        let node = self.node;
        let end = node.end();
        debug_assert!(from <= end + 1);
        let count = end + 1 - from;
        let used = to + count;
        debug_assert!(used <= node.capacity());
        self.slide(from, to, count);
        if node.kind == Kind::Gap {
            for i in used..=end {
                node.set_gap(i, K::MIN);
            }
        }
        self.shorten(used, end + 1);
    }
}
