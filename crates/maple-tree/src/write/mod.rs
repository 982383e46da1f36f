//! Writing: plan → reserve → apply.
//!
//! [`plan`] looks at a write and at the tree, classifies it, and counts the nodes that it needs; it
//! changes nothing. Then the nodes are reserved, which may fail and still changes nothing. Then
//! [`apply`] carries the plan out, which cannot fail.
//!
//! # Which write takes which way
//!
//! The plan of the general case can make every write. Most are made by shorter ways, each of which leaves what it cannot do to the next. What
//! each is worth is counted with that way switched off, in instructions (`docs/design/performance.md` has the rows).
//!
//! | way | which writes | worth |
//! |---|---|---|
//! | [`one_slot`] | nobody reads; a part of a hole becomes an entry, or an entry a hole, in a leaf that has room and keeps enough | a fifth of an insertion, half of an erasure |
//! | … `across` | before that: the hole that the next leaf goes on with is taken in | a sixth of an erasure |
//! | [`one_leaf`], `here` | nobody reads, and all that changes is in one leaf, which has room and keeps enough: at once, from a slot that is known | a fifth of a system call on an address space |
//! | [`one_leaf`] | all that changes is in one leaf, which has room: in place, or in a copy beside readers | a third of an append |
//! | [`two_leaves`] | the leaf has no room, or too few slots left, or the hole goes on in the next: in place, or in copies of both and the node above | a seventh of a pair of writes beside readers |
//! | … `spanning` | nobody reads, and the range goes on in the next leaf, of the same parent: what is new goes to one of the two, and the bound between them moves | a tenth of a system call on an address space |
//! | … `above` | nobody reads, and the node above has no room for one more leaf | a sixteenth of an insertion |
//! | [`plan`], [`apply`] | all others: several leaves, an entry that is split, a root, nodes above that join | |
//!
//! Whole parts of trees go to other trees by [`halves`].
//!
//! In trees that share nodes, what a write touches is first made the tree's own, so that it names its parents (`api::snap`); then the write is made as in any
//! other. What is found to be touched only by planning, a neighbour that joins or shares, [stops the plan](Plan::shared) until it is owned.
//!
//! # The shape of every change
//!
//! A write replaces the contents of the slots that it touches by at most three [`Item`]s: the rest
//! of the first slot, the new entry, and the rest of the last slot. If these fit into the leaf, the
//! write ends there. Otherwise the touched leaves (one, or all that the range spans, and a
//! neighbour if too little would be left) are replaced by one to three new ones. These are the
//! items of the same step one level up ([`level`]), and the loop ends where the items fit. So
//! splits, rebalancing, stores over many nodes, growth and shrinking of the tree are all one loop.
//!
//! # Holes
//!
//! Two holes never neighbour each other, neither within a leaf nor across leaves: erasing widens its range
//! over the holes that it touches. A hole is therefore always one slot, which the gap search relies on. [`holes`] keeps the sizes of holes in
//! gap nodes true, for all ways.
//!
//! May know: [`base`](crate::base), [`node`](crate::node), [`alloc`](crate::alloc) and [`read`](crate::read). What a value is, only
//! [`duplicate`] knows.

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

/// The kind of change that a write makes, with Linux's name where Linux has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreType {
    /// A hole over a hole: nothing changes.
    Nothing,
    /// The tree is empty, or holds a single entry at index 0: only the root changes.
    Root,
    /// The range is that of a slot: the entry is exchanged in place.
    ExactFit,
    /// Slots at the end of a leaf are written, the others stay where they are.
    Append,
    /// One leaf is rewritten, in place or as a copy.
    Node,
    /// A leaf is split, and its ancestors as needed.
    Split,
    /// A leaf has too little left and joins or shares with a neighbour.
    Rebalance,
    /// The range covers slots of several leaves.
    Spanning,
}

/// A slot to be: what it holds, its last index, and the largest hole below (in inner nodes).
#[derive(Clone, Copy)]
pub(crate) struct Item<K> {
    pub(crate) word: Word,
    pub(crate) last: K,
    pub(crate) gap: K,
}

impl<K: Key> Item<K> {
    /// A slot of a leaf.
    #[inline(always)]
    pub(crate) fn of_leaf(word: Word, last: K) -> Self {
        let gap = K::MIN;
        Self { word, last, gap }
    }
}

/// Three of a write into nodes, four of one into a tree without.
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

/// Neighbouring slots of one level that will be replaced: those from `from` of the node `left` to
/// `to` of the node `right`, which may be the same node, the next one, or one further on.
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

/// Takes what a write removes from the tree, after the tree has become what it should be.
pub(crate) trait Sink<K> {
    /// `true` if [`entry`](Sink::entry) has an effect. Otherwise no entries are searched.
    const ENTRIES: bool = true;
    /// An entry that the write covered entirely.
    fn entry(&mut self, first: K, last: K, word: Word);
    /// The memory of a node that has been replaced. Readers that were about before may still be in it: keep it in a
    /// [`DeadNodes`](crate::alloc::dead::DeadNodes) list, which marks it as dead, until they have left.
    fn node(&mut self, block: NonNull<u8>);
    /// A counted node that the tree does not lead to any more. Only trees that share nodes have such.
    fn shared(&mut self, node: Word) {
        debug_assert!(false, "{node:?} is shared, in a tree that shares nothing");
    }
}

/// Frees nodes at once, which no other code uses and which came from `alloc`, and hands entries to
/// a closure.
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
        // SAFETY: the creator of this value has promised that the nodes come from the allocator and
        // that no other code uses them.
        unsafe { self.alloc.deallocate(block, LAYOUT) }
    }
}
