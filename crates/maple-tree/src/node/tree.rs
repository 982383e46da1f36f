//! The state of a tree: two words, independent of values.

use core::marker::PhantomData;

use crate::base::atomic::{AtomicPtr, AtomicU32, Ordering, Slot, memory_of};
use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NULL, Node, Unread, Word, is_node};

/// The bits of the flags word. They are those of Linux's `ma_flags`.
pub(crate) mod flags {
    /// The tree keeps the size of the largest hole below each child.
    pub(crate) const GAPS: u32 = 0x01;
    /// Concurrent readers are possible: changes are made in copies and then published.
    pub(crate) const RCU: u32 = 0x02;
    /// The position of the height.
    pub(crate) const HEIGHT_SHIFT: u32 = 2;
    /// The bits of the height.
    pub(crate) const HEIGHT_MASK: u32 = 0x7c;
}

/// A tree of ranges over words, which `MapleTree` and the C interface wrap.
///
/// The root word is NULL for an empty tree. It is an entry if that is the only one and covers just
/// index 0. Otherwise it is a tagged pointer to the topmost node. The height is in the flags word,
/// together with the modes, so that a C structure with these two members *is* such a tree.
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
        /// Returns an empty tree with the given modes of [`flags`].
        pub(crate) const fn new(flags: u32) -> Self {
            Self { flags: AtomicU32::new(flags), root: AtomicPtr::new(NULL), marker: PhantomData }
        }
    }

    /// Returns an empty tree for one owner, which tracks gaps if this one does.
    pub(crate) fn empty_like(&self) -> Self {
        Self::new(self.flags() & flags::GAPS)
    }

    /// Returns the root word.
    #[inline(always)]
    pub(crate) fn root_word(&self) -> Word {
        self.root.load(Ordering::Acquire)
    }

    /// Returns the address of the root word. Only with exclusive access to the tree.
    #[inline(always)]
    pub(crate) fn root_memory(&self) -> Slot {
        memory_of(&self.root)
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> Root<K, S> {
        let word = self.root_word();
        if is_node(word) {
            // SAFETY: a root word with a node's tag points to the topmost node, which lives as long
            // as the root (or a reader's guard) keeps it.
            Root::Node(unsafe { Node::from_word(word) })
        } else if word.is_null() {
            Root::Empty
        } else {
            Root::Single(word)
        }
    }

    /// Returns all flags, including those that this crate does not know.
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

    /// Publishes a new root with its height.
    pub(crate) fn publish_root(&self, word: Word, height: u32) {
        let height = height << flags::HEIGHT_SHIFT;
        self.change_flags(flags::HEIGHT_MASK, height, Ordering::Relaxed);
        self.root.store(word, Ordering::Release);
    }

    /// Returns the tree itself, for cursors over a plain tree.
    #[inline]
    pub(crate) fn tree(&self) -> &Self {
        self
    }

    /// Returns the number of levels of nodes: 0 for an empty tree and for a single entry at index
    /// 0.
    #[inline]
    pub(crate) fn height(&self) -> u32 {
        (self.flags() & flags::HEIGHT_MASK) >> flags::HEIGHT_SHIFT
    }

    /// Returns the number of entries that nodes of this height can hold. The actual number is not
    /// kept, because that would slow down every write.
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

    /// Returns `true` if a change must become visible as a whole.
    #[inline]
    pub(crate) fn in_rcu(&self) -> bool {
        self.flags() & flags::RCU != 0
    }

    /// Returns the right to change nodes in place, or `None` in RCU mode.
    ///
    /// # Safety
    ///
    /// While the right is used, the caller is the only writer, and, unless the tree is in RCU mode,
    /// nothing reads.
    #[inline(always)]
    pub(crate) unsafe fn unread(&self) -> Option<Unread> {
        // SAFETY: not in RCU mode, so that nothing reads (the caller's promise).
        (!self.in_rcu()).then(|| unsafe { Unread::new() })
    }

    /// Switches RCU mode.
    ///
    /// # Safety
    ///
    /// The caller is the only writer. When it is switched off, there is no reader, and none starts
    /// until it is on again. The exception: readers may start while the caller ensures that nothing
    /// writes.
    pub(crate) unsafe fn set_in_rcu(&self, on: bool) {
        let value = if on { flags::RCU } else { 0 };
        self.change_flags(flags::RCU, value, Ordering::Release);
    }

    /// Returns the kind of inner nodes.
    #[inline]
    pub(crate) fn inner_kind(&self) -> Kind {
        if self.tracks_gaps() {
            Kind::Gap
        } else {
            Kind::Range
        }
    }
}
