//! Writing: plan → reserve → apply.
//!
//! [`plan`] reads the tree, classifies a write, and counts the nodes that it needs. It changes
//! nothing. Then the nodes are reserved, which may fail and still changes nothing. Then [`apply`]
//! changes the tree, which cannot fail.
//!
//! # Which path a write takes
//!
//! The general path, [`plan`], can make every write. Most writes take a shorter path. A path that
//! cannot make a write leaves it to the next one. The last column is the share of instructions that
//! a path saves, measured with that path switched off (`docs/design/performance.md` has the rows).
//!
//! | path | writes | saves |
//! |---|---|---|
//! | [`one_slot`] | without readers; a part of a hole becomes an entry, or an entry a hole, in a leaf with room that keeps enough slots | a fifth of an insertion, half of an erasure |
//! | … `absorb` | tried before it: the new hole joins the one that continues in the next leaf | a sixth of an erasure |
//! | [`one_leaf`], `here` | without readers; all changes are in one leaf, which has room and keeps enough slots; made at once, from a known slot | a fifth of a system call on an address space |
//! | [`one_leaf`] | all changes are in one leaf, which has room; in place, or in a copy under concurrent readers | a third of an append |
//! | [`two_leaves`] | the leaf has no room, or too few slots left, or the hole continues in the next leaf; in place, or in copies of both leaves and their parent | a seventh of a pair of writes under concurrent readers |
//! | … `spanning` | without readers; the range continues in the next leaf of the same parent: the new slots go to one of the two leaves, and the pivot between them moves | a tenth of a system call on an address space |
//! | … `above` | without readers; the parent has no room for one more leaf | a sixteenth of an insertion |
//! | [`plan`], [`apply`] | all others: several leaves, a split entry, a new root, inner nodes that join | |
//!
//! [`halves`] moves whole parts of trees to other trees.
//!
//! In trees that share nodes, a write first makes the touched nodes exclusive to its tree, so that
//! each names its parent (`api::snap`). Then it is made as in any other tree. A neighbour that
//! joins or shares slots is found only while planning: it [stops the plan](Plan::shared) until it
//! is exclusive, too.
//!
//! # The shape of every change
//!
//! A write replaces the contents of the slots that it touches by at most three [`Item`]s: the rest
//! of the first slot, the new entry, and the rest of the last slot. If these fit, they stay in the
//! leaf. If not, one to three new leaves replace the touched ones: one leaf, or all that the range
//! spans, and a neighbour if too few slots would remain. The new leaves are the items of the same
//! step one level up ([`level`]), until the items fit. One loop therefore covers splits,
//! rebalancing, stores over many nodes, and trees that grow or shrink.
//!
//! # Holes
//!
//! A hole is a slot without an entry. Two holes are never adjacent, neither within a leaf nor
//! across leaves: an erasure extends its range over the holes that it touches. A hole is therefore
//! always one slot, and the gap search relies on that. Gap nodes keep the size of the largest hole
//! below each child. [`holes`] maintains these sizes for all paths.
//!
//! May use: [`base`](crate::base), [`node`](crate::node), [`alloc`](crate::alloc) and
//! [`read`](crate::read). Only [`duplicate`] knows what a value is.

pub(crate) mod apply;
pub(crate) mod build;
mod bulk;
pub(crate) mod duplicate;
pub(crate) mod halves;
pub(crate) mod hint;
pub(crate) mod holes;
mod last;
pub(crate) mod level;
pub(crate) mod one_leaf;
pub(crate) mod one_slot;
pub(crate) mod plan;
pub(crate) mod two_leaves;
#[cfg(feature = "tracing")]
mod watch;

pub(crate) use apply::{Removed, retire_subtree};
pub use hint::Hint;
pub(crate) use one_leaf::Quick;
pub(crate) use one_slot::SlotAt;
pub(crate) use plan::{Action, Plan};
pub(crate) use two_leaves::Rebalance;

use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::base::Key;
use crate::node::{LAYOUT, NULL, Node, Word};

/// The effect of a write on the tree. Variants have Linux's names where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreType {
    /// A hole over a hole: nothing changes.
    Nothing,
    /// The tree is empty, or holds a single entry at index 0: only the root changes.
    Root,
    /// The range is that of a slot: the entry is replaced in place.
    ExactFit,
    /// Slots at the end of a leaf are written. The others stay where they are.
    Append,
    /// One leaf is rewritten, in place or as a copy.
    Node,
    /// A leaf is split, and its ancestors as needed.
    Split,
    /// A leaf has too few slots left, and joins or shares with a neighbour.
    Rebalance,
    /// The range covers slots of several leaves.
    Spanning,
}

/// A future slot: its word, its last index, and the largest hole below it (in inner nodes).
#[derive(Clone, Copy)]
pub(crate) struct Item<K> {
    pub(crate) word: Word,
    pub(crate) last: K,
    pub(crate) gap: K,
}

impl<K: Key> Item<K> {
    /// Returns the item of a leaf's slot.
    #[inline(always)]
    pub(crate) fn of_leaf(word: Word, last: K) -> Self {
        let gap = K::MIN;
        Self { word, last, gap }
    }
}

/// The most items that a write can need: three if the tree has nodes, four if it has none.
const MOST_ITEMS: usize = 4;

#[derive(Clone, Copy)]
pub(crate) struct Items<K> {
    at: [Item<K>; MOST_ITEMS],
    len: usize,
}

impl<K: Key> Items<K> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            at: [Item::of_leaf(NULL, K::MIN); MOST_ITEMS],
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, item: Item<K>) {
        debug_assert!(self.len < MOST_ITEMS);
        self.at[self.len] = item;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Item<K>] {
        &self.at[..self.len]
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut Item<K>> {
        self.at[..self.len].last_mut()
    }
}

/// Adjacent slots of one level that a write replaces: from slot `from` of the node `left` to slot
/// `to` of the node `right`. `right` is the same node, the next one, or a later one.
#[derive(Clone, Copy)]
pub(crate) struct Span<K, S> {
    pub(crate) left: Node<K, S>,
    pub(crate) from: usize,
    pub(crate) right: Node<K, S>,
    pub(crate) to: usize,
    /// First index of `left`.
    pub(crate) min: K,
    /// Last index of `right`.
    pub(crate) max: K,
}

/// A receiver of what a write removes, called once the tree is complete again.
pub(crate) trait Sink<K> {
    /// `true` if [`entry`](Sink::entry) does anything. If not, writes do not collect entries.
    const ENTRIES: bool = true;
    /// Takes an entry that the write covered entirely.
    fn entry(&mut self, first: K, last: K, word: Word);
    /// Takes the memory of a replaced node. Readers that started before may still be in it. Keep it
    /// in a [`DeadNodes`](crate::alloc::dead::DeadNodes) list, which marks it as dead, until they
    /// have left.
    fn node(&mut self, block: NonNull<u8>);
    /// Takes a counted node that the tree no longer leads to. Only trees that share nodes have such
    /// nodes.
    fn shared(&mut self, node: Word) {
        debug_assert!(false, "{node:?} is shared, in a tree that shares nothing");
    }
}

/// A sink that frees nodes at once and hands entries to a closure. The nodes came from `alloc` and
/// have no other user.
pub(crate) struct Immediate<'a, A, F> {
    pub(crate) alloc: &'a A,
    pub(crate) entry: F,
}

impl<K, A: NodeAlloc, F: FnMut(K, K, Word)> Sink<K> for Immediate<'_, A, F> {
    #[inline]
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.entry)(first, last, word);
    }

    #[inline]
    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the creator of this sink guarantees that the nodes came from `alloc` and have no
        // other user.
        unsafe { self.alloc.deallocate(block, LAYOUT) }
    }
}
