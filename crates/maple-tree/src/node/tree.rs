//! The state of a tree: two words, which know nothing of values.

use core::marker::PhantomData;

use crate::base::atomic::{AtomicPtr, AtomicU32, Ordering, Slot, memory_of};
use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NULL, Node, Unread, Word, is_node};

/// Bits of the flags word. They are those of Linux's `ma_flags`.
pub(crate) mod flags {
    /// The tree keeps the size of the largest hole below each child.
    pub(crate) const GAPS: u32 = 0x01;
    /// Readers may be about: changes are built aside and published.
    pub(crate) const RCU: u32 = 0x02;
    /// The lowest bit of the height.
    pub(crate) const HEIGHT_SHIFT: u32 = 2;
    /// The bits of the height.
    pub(crate) const HEIGHT_MASK: u32 = 0x7c;
}

/// A tree of ranges over words: what `MapleTree` and the C interface are shells of.
///
/// The root word is NULL for an empty tree. It is an entry if that is the tree's only one and
/// covers just index 0. Otherwise it is a tagged pointer to the topmost node. The height is kept in
/// the flags word, next to the modes, so that a C structure with these two members *is* such a
/// tree.
#[repr(C)]
pub(crate) struct RawTree<K, S> {
    flags: AtomicU32,
    root: AtomicPtr<()>,
    marker: PhantomData<fn() -> (K, S)>,
}

pub(crate) enum Root<K, S> {
    Empty,
    /// One entry, at index 0 only.
    Single(Word),
    Node(Node<K, S>),
}

impl<K: Key, S: Shape> RawTree<K, S> {
    const_unless_loom! {
        /// An empty tree with some of the modes in [`flags`].
        pub(crate) const fn new(flags: u32) -> Self {
            Self { flags: AtomicU32::new(flags), root: AtomicPtr::new(NULL), marker: PhantomData }
        }
    }

    /// An empty tree for one owner that keeps the sizes of holes if this one does.
    pub(crate) fn empty_like(&self) -> Self {
        Self::new(self.flags() & flags::GAPS)
    }

    /// Returns the root word.
    #[inline(always)]
    pub(crate) fn root_word(&self) -> Word {
        self.root.load(Ordering::Acquire)
    }

    /// Returns the address of the root word. Only for callers with exclusive access to the tree.
    #[inline(always)]
    pub(crate) fn root_memory(&self) -> Slot {
        memory_of(&self.root)
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> Root<K, S> {
        let word = self.root_word();
        if is_node(word) {
            // SAFETY: a root word with a node's tag points to the topmost node, which lives as long as
            // the root (or a reader's guard) keeps it.
            Root::Node(unsafe { Node::from_word(word) })
        } else if word.is_null() {
            Root::Empty
        } else {
            Root::Single(word)
        }
    }

    /// All flags, those that the core does not know included.
    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Changes the flags in `mask` to those of `value`. Only for the writer.
    pub(crate) fn set_flags(&self, mask: u32, value: u32) {
        self.change_flags(mask, value & mask, Ordering::Relaxed);
    }

    #[inline(always)]
    fn change_flags(&self, mask: u32, value: u32, order: Ordering) {
        self.flags.store((self.flags() & !mask) | value, order);
    }

    /// Makes a new root visible, with the height that goes with it.
    pub(crate) fn publish_root(&self, word: Word, height: u32) {
        let height = height << flags::HEIGHT_SHIFT;
        self.change_flags(flags::HEIGHT_MASK, height, Ordering::Relaxed);
        self.root.store(word, Ordering::Release);
    }

    /// The tree of a cursor that has just a tree.
    #[inline]
    pub(crate) fn tree(&self) -> &Self {
        self
    }

    /// Levels of nodes: 0 for an empty tree and for one with a single entry at index 0.
    #[inline]
    pub(crate) fn height(&self) -> u32 {
        (self.flags() & flags::HEIGHT_MASK) >> flags::HEIGHT_SHIFT
    }

    /// Returns the number of entries that this many levels of nodes can hold at most. The exact
    /// number is not kept, because every write would have to update it.
    pub(crate) fn most_entries(&self) -> usize {
        let height = self.height();
        match self.root() {
            Root::Empty => 0,
            Root::Single(_) => 1,
            Root::Node(_) => {
                let leaf = Geometry::<K, S>::slots(Kind::Leaf);
                let inner = Geometry::<K, S>::slots(self.inner_kind());
                leaf.saturating_mul(inner.saturating_pow(height.saturating_sub(1)))
            }
        }
    }

    /// Returns `true` if the nodes keep the sizes of holes.
    #[inline]
    pub(crate) fn tracks_gaps(&self) -> bool {
        self.flags() & flags::GAPS != 0
    }

    /// Returns `true` if changes must stay invisible until they are complete.
    #[inline]
    pub(crate) fn in_rcu(&self) -> bool {
        self.flags() & flags::RCU != 0
    }

    /// The right to change nodes where they are, unless changes must be invisible until they are whole.
    ///
    /// # Safety
    ///
    /// As long as the right is used, the caller is the only writer, and, unless the tree is in RCU
    /// mode, no thread reads.
    #[inline(always)]
    pub(crate) unsafe fn unread(&self) -> Option<Unread> {
        // SAFETY: not in RCU mode, so no thread reads (the caller's promise).
        (!self.in_rcu()).then(|| unsafe { Unread::new() })
    }

    /// Switches RCU mode.
    ///
    /// # Safety
    ///
    /// The caller is the only writer. To switch the mode off, no reader may be present, and none
    /// may come until it is on again, unless no write happens in between.
    pub(crate) unsafe fn set_in_rcu(&self, on: bool) {
        let value = if on { flags::RCU } else { 0 };
        self.change_flags(flags::RCU, value, Ordering::Release);
    }

    /// The kind of nodes above the leaves.
    #[inline]
    pub(crate) fn inner_kind(&self) -> Kind {
        if self.tracks_gaps() {
            Kind::Gap
        } else {
            Kind::Range
        }
    }
}
