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
    /// As long as it or a copy of it is used, the caller is the only writer. No reader can reach
    /// the nodes that are changed through it: they are not published yet, or the tree has no
    /// concurrent readers.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// To change all of it.
    #[inline(always)]
    pub(crate) fn write(self, Unread(()): Unread) -> NodeMut<K, S> {
        NodeMut { node: self }
    }
}

/// A node that no reader can reach: everything in it may be changed.
#[derive(Clone, Copy)]
pub(crate) struct NodeMut<K, S> {
    node: Node<K, S>,
}

impl<K: Key, S: Shape> NodeMut<K, S> {
    /// Makes a node of a kind out of fresh memory: no parent, one used slot, all of them NULL.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`](super::LAYOUT) that no other code uses.
    #[inline]
    pub(crate) unsafe fn init(block: NonNull<u8>, kind: Kind) -> Self {
        // SAFETY: no other code uses the memory (the caller's promise).
        let node = unsafe { Node::at(block, kind) };
        // SAFETY: as above.
        unsafe { node.cells.init(kind) };
        Self { node }
    }

    /// Makes a copy of a node that is not dead out of fresh memory, but for the first word. If nodes are shared, what it leads to is not counted again.
    ///
    /// # Safety
    ///
    /// `block` is memory of [`LAYOUT`](super::LAYOUT) that no other code uses. No thread writes the
    /// old node during the call, except its count.
    #[inline]
    pub(crate) unsafe fn copy(block: NonNull<u8>, old: Node<K, S>, first_word: Word) -> Self {
        debug_assert!(!old.is_dead());
        // SAFETY: no other code uses the memory (the caller's promise).
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
        // SAFETY: `i` is below the number of pivots, and no thread reads (promise of `Unread`).
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

    /// Moves `count` slots, with their upper pivots and gaps, from slot `from` to slot `to`. Leaves
    /// the end unchanged, and leaves the old contents in the slots that the move does not
    /// overwrite.
    #[inline]
    pub(crate) fn slide(self, from: usize, to: usize, count: usize) {
        let node = self.node;
        debug_assert!(from.max(to) + count <= node.capacity());
        let pivots = (node.capacity() - 1).saturating_sub(from.max(to));
        // SAFETY: all slots are within the arrays (the pivot of the last slot, if it moves beyond
        // the array, is not moved), and no other code accesses the node (promise of `Unread`).
        unsafe {
            node.cells
                .shift(node.kind, from, to, count, count.min(pivots))
        };
    }

    /// Moves the slots of a leaf from `at` (one of its slots, or the next) to `end`, its last, with what bounds them above, upwards, so that the
    /// last is `new_end`. The slots between keep what was there.
    #[inline(always)]
    pub(crate) fn open(self, at: usize, end: usize, new_end: usize) {
        debug_assert!(self.node.is_leaf() && at <= end + 1 && end <= new_end);
        debug_assert!(new_end < self.node.capacity());
        if new_end != end {
            if at <= end {
                // SAFETY: both ranges are within the arrays (the last slot has no pivot), and no
                // other code accesses the node (promise of `Unread`).
                unsafe {
                    let (cells, to) = (self.node.cells, at + (new_end - end));
                    cells.shift(Kind::Leaf, at, to, end + 1 - at, end - at);
                }
            }
            self.set_end(new_end);
        }
    }

    /// Makes slot `at` of a leaf whose last is `end` a hole, and one with the slot before if that is one (`left`), and with the one after
    /// (`right`).
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

    /// Moves the slots of a leaf from `from` (one of its slots, or the next) to `end`, its last, with what bounds them above, down, so that the first is
    /// `to`.
    #[inline(never)]
    pub(crate) fn close_up(self, from: usize, to: usize, end: usize) {
        // A call that is not in line does not know otherwise.
        let leaf = self.as_leaf();
        if from > to {
            leaf.slide(from, to, end + 1 - from);
            leaf.shorten(end + 1 - (from - to), end + 1);
        }
    }

    /// Makes the first `used` slots of a leaf all that are used, of which there were `before`.
    #[inline(never)]
    pub(crate) fn set_used(self, used: usize, before: usize) {
        self.as_leaf().shorten(used, before.max(used));
    }

    /// As [`set_used`](Self::set_used), in line, of any node without gaps; to more, it clears nothing.
    #[inline(always)]
    fn shorten(self, used: usize, before: usize) {
        let pivots = self.node.capacity() - 1;
        // Mostly one or two. In loops that the compiler does not take for a call of `memset`, which would take longer.
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

    /// Moves the slots `from..=end` (with what bounds them above, and their gaps) so that they start
    /// at `to`, sets the new end, and clears what is left over. Slots between `from` and `to`, when
    /// these move upwards, keep stale contents: the caller fills them.
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
