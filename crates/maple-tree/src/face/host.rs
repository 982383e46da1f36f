//! What a map is to the calls that write it: who holds the tree, where its nodes come from, and how a plan is carried out.

use core::ptr::NonNull;

use crate::alloc::{AllocError, Reserve};
use crate::base::{Key, Shape, Value};
use crate::node::{RawTree, Word};
use crate::write::{Plan, Quick, Seat, SlotAt};

/// A tree of values that its holder alone may write.
pub(crate) trait Host<K: Key, V: Value, S: Shape> {
    /// The tree. Its words are values of `V`.
    fn tree(&self) -> &RawTree<K, S>;

    /// Reserves what a plan needs and carries it out. The words of entries that it removed go to `taken`, if they are
    /// [owned](Host::discard) with the duty to drop them.
    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError>;

    /// As [`carry_out`](Host::carry_out), for a write that stays within one leaf.
    fn carry_out_quick(
        &mut self,
        quick: Quick<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError>;

    /// Puts a word that may stand in the tree at a range within the hole that a slot is, if that takes no node and no copy of one; tells whether
    /// it has.
    #[inline(always)]
    fn fill_hole(&mut self, at: SlotAt<K, S>, range: (K, K), word: NonNull<()>) -> bool {
        let _ = (at, range, word);
        false
    }

    /// As [`carry_out_quick`](Host::carry_out_quick), for a part of a hole that becomes an entry.
    #[inline(always)]
    fn carry_out_fill(&mut self, quick: Quick<K, S>) -> Result<(), AllocError> {
        self.carry_out_quick(quick, |_, _, _| {})
    }

    /// Makes the entry that a slot is a hole, if that takes no copy of a node, and, if it is to be `alone`, changes no other leaf; tells whether it has. The
    /// entry's word goes to `taken`, as for [`carry_out`](Host::carry_out).
    #[inline(always)]
    fn vacate(&mut self, at: SlotAt<K, S>, alone: bool, taken: impl FnMut(K, K, Word)) -> bool {
        let _ = (at, alone, taken);
        false
    }

    /// Makes a range that starts in a slot, or in the one before in the same leaf, hold a word (NULL erases), if that takes no node, no copy of one, and no other leaf; tells whether it has.
    /// The part above of an entry that goes on at both ends gets `twin`, which is NULL otherwise. The words of the
    /// entries that are removed go to `taken`, as for [`carry_out`](Host::carry_out), but for `kept`.
    #[inline(always)]
    fn store_here(
        &mut self,
        seat: &Seat<K, S>,
        range: (K, K),
        (word, twin): (Word, Word),
        kept: Word,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        let _ = (seat, range, word, twin, kept, taken);
        false
    }

    /// As [`store_here`](Host::store_here), of a range that goes on in the next leaf; nothing is within an entry then.
    #[inline(always)]
    fn store_spanning(
        &mut self,
        seat: &Seat<K, S>,
        range: (K, K),
        word: Word,
        kept: Word,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        let _ = (seat, range, word, kept, taken);
        false
    }

    /// As [`carry_out_quick`](Host::carry_out_quick), within an entry: `twin` is what the part of it above holds then.
    fn carry_out_split(&mut self, quick: Quick<K, S>, twin: NonNull<()>) -> Result<(), AllocError>;

    /// As [`carry_out_keeping`](Host::carry_out_keeping), for a write that stays within one leaf.
    #[inline]
    fn carry_out_quick_keeping(
        &mut self,
        quick: Quick<K, S>,
        kept: K,
        mut taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        self.carry_out_quick(quick, |first, last, word| {
            if first != kept {
                taken(first, last, word);
            }
        })
    }

    /// As [`carry_out`](Host::carry_out), for an entry that is stored over itself: the one that began at `kept` stays.
    fn carry_out_keeping(
        &mut self,
        plan: Plan<K, S>,
        kept: K,
        mut taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        self.carry_out(plan, |first, last, word| {
            // The entry itself is covered by its own range.
            if first != kept {
                taken(first, last, word);
            }
        })
    }

    /// What to do with a removed word that nobody wants: drop the value, or nothing, if it is retired.
    fn discard(word: Word);
}

/// A map whose nodes come from `A`.
pub(crate) trait Nodes<A> {
    /// Where they come from.
    fn nodes(&self) -> &A;

    /// Sees to it that at least `count` nodes are in the reserve. If there is no memory, those that could be had are.
    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError>;
}

/// A map that can carry out a plan with nodes that are there already.
pub(crate) trait Reserved<K: Key, V: Value, S: Shape>: Host<K, V, S> {
    /// Carries out a plan; `reserve` has the nodes.
    fn carry_out_with(
        &mut self,
        plan: Plan<K, S>,
        reserve: &mut Reserve,
        taken: impl FnMut(K, K, Word),
    );

    /// As [`carry_out_with`](Reserved::carry_out_with), for a write that stays within one leaf, or takes a neighbour in.
    fn carry_out_quick_with(
        &mut self,
        quick: Quick<K, S>,
        reserve: &mut Reserve,
        taken: impl FnMut(K, K, Word),
    );

    /// Exchanges the word of the entry that a slot is for another, which takes no node.
    fn exchange(&mut self, at: SlotAt<K, S>, word: NonNull<()>, taken: impl FnMut(K, K, Word));
}
