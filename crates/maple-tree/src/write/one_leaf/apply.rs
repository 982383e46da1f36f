//! Applying a write within one leaf: in place, or in a copy of the leaf that replaces it.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, NodeMut, RawTree, Word};
use crate::read::{BoundedLeaf, Found, LeafPath};
use crate::write::holes::{largest_in_leaf, propagate_from, propagate_last};
#[cfg(feature = "tracing")]
use crate::write::watch::Watch;
use crate::write::{Quick, Rebalance, Removed, Sink};

/// The effect of a write on the holes of a leaf.
#[derive(Clone, Copy)]
pub(in crate::write) struct Holes<K> {
    /// The largest hole that the write fills, extends or shortens.
    pub(in crate::write) gone: K,
    /// The largest hole in their place afterwards.
    pub(in crate::write) made: K,
    /// `true` if the largest new hole is the last of the tree, and larger than all other holes
    /// together.
    outermost: bool,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Applies a quick write, and hands what it removed to `sink`. If the write splits an entry,
    /// the part above the range gets the word `twin`. Otherwise `twin` is NULL.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and the tree has not changed since `quick` was made.
    /// * `reserve` holds at least as many nodes as `quick` takes.
    /// * Unless the tree is in RCU mode, nothing reads it during the call.
    /// * The words are NULL, or valid in this tree.
    #[inline(always)]
    pub(crate) unsafe fn apply_quick(
        &self,
        quick: &Quick<K, S>,
        twin: Word,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        if quick.is_exact() {
            return self.exchange(quick, sink);
        }
        let leaf = quick.path.place.leaf;
        // One list for both paths: each would take its own stack space.
        let mut removed = Removed::none();
        if !matches!(quick.rebalance, Rebalance::None) {
            #[cfg(feature = "tracing")]
            let watch = Watch::rebalancing(self, *quick);
            quick.look(|found| removed.record(found));
            // SAFETY: the caller's promise.
            let Some(unread) = (unsafe { self.unread() }) else {
                let nodes = self.apply_in_copies(*quick, reserve);
                #[cfg(feature = "tracing")]
                watch.made(self);
                return removed.give_with(nodes, sink);
            };
            let left_over = quick.apply_to_both(self, reserve, unread);
            #[cfg(feature = "tracing")]
            watch.made(self);
            return removed.give_with([left_over], sink);
        }
        let holes = quick.look(|found| removed.record(found));
        // SAFETY: the caller's promise.
        let Some(unread) = (unsafe { self.unread() }) else {
            let new = reserve.take_copy(leaf, leaf.first_word());
            quick.edit_with(new, twin);
            self.publish_leaf(&quick.path, new.node());
            quick.propagate(new.node(), holes);
            return removed.give_with([Some(leaf)], sink);
        };
        quick.edit_with(leaf.write(unread), twin);
        quick.propagate(leaf, holes);
        removed.give(sink);
    }

    /// Exchanges the word of a slot, which readers see at once.
    #[inline(always)]
    fn exchange(&self, quick: &Quick<K, S>, sink: &mut impl Sink<K>) {
        let BoundedLeaf { leaf, min, max } = quick.path.place;
        let old = quick.path.place.slot(quick.from);
        leaf.publish(quick.from, quick.word);
        if self.tracks_gaps()
            && old.word.is_null() != quick.word.is_null()
            && let Some(parent) = quick.path.parent
        {
            propagate_from(parent, quick.path.at, min, largest_in_leaf(leaf, min, max));
        }
        if !old.word.is_null() {
            sink.entry(old.first, old.last, old.word);
        }
    }

    /// Publishes a new leaf in the place of an old one.
    #[inline(always)]
    fn publish_leaf(&self, path: &LeafPath<K, S>, new: Node<K, S>) {
        match path.parent {
            Some(parent) => parent.publish(path.at, new.word()),
            None => self.publish_root(new.word(), 1),
        }
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Makes the change in the leaf or in a copy of it.
    #[inline(always)]
    pub(in crate::write) fn edit(self, node: NodeMut<K, S>) {
        let at = self.from + usize::from(self.head);
        let after = self.to + 1 - usize::from(self.tail);
        // The rest of slot `to` moves with the slots after it. The rest of slot `from` stays where
        // it is.
        let new_end = self.total - 1;
        let grown = (at + 1).wrapping_sub(after).cast_signed();
        let end = new_end.wrapping_sub(grown.cast_unsigned());
        debug_assert_eq!(end, node.node().end());
        if grown > 0 {
            node.open(after, end, new_end);
        } else if grown < 0 {
            node.close_up(after, at + 1, end);
        }
        if self.head {
            node.set_pivot(self.from, self.first.wrapping_sub(K::ONE));
        }
        node.set_slot(at, self.word);
        // The pivots of the last slot and of those after it are the largest key.
        if at < new_end {
            node.set_pivot(at, self.last);
        }
    }

    /// Makes the change as [`edit`](Self::edit) does. If it splits an entry, the part above gets
    /// the word `twin`.
    #[inline(always)]
    pub(super) fn edit_with(self, node: NodeMut<K, S>, twin: Word) {
        self.edit(node);
        if !twin.is_null() {
            // After the part below and the new slot.
            node.set_slot(self.from + 2, twin);
        }
    }

    /// Calls `removes` with each entry that the write removes entirely, and returns the effect on
    /// holes. Call it before the leaf changes.
    #[inline(always)]
    pub(in crate::write) fn look(self, mut removes: impl FnMut(Found<K>)) -> Holes<K> {
        let BoundedLeaf { leaf, min, max } = self.path.place;
        let mut holes = Holes {
            gone: K::MIN,
            made: K::MIN,
            outermost: false,
        };
        let start = leaf.first(self.from, min);
        let mut first = start;
        let mut i = self.from;
        let head = leaf.slot(i);
        let mut tail = head;
        let last = loop {
            let last = leaf.last(i, max);
            if tail.is_null() {
                holes.gone = holes.gone.max(K::span(first, last));
            } else if self.first <= first && last <= self.last {
                let word = tail;
                removes(Found { first, last, word });
            }
            if i >= self.to {
                break last;
            }
            first = last.wrapping_add(K::ONE);
            i += 1;
            tail = leaf.slot(i);
        };
        if self.word.is_null() {
            holes.made = K::span(self.first, self.last);
        }
        if self.head && head.is_null() {
            holes.made = holes.made.max(self.first.wrapping_sub(start));
        }
        if self.tail && tail.is_null() {
            let tail = last.wrapping_sub(self.last);
            holes.made = holes.made.max(tail);
            // The new entry is among the indices before, so that their holes are no larger than
            // this.
            holes.outermost = last == K::MAX && tail >= self.last;
        }
        holes
    }

    /// Propagates the effect on holes to the gap nodes above. `leaf` is the changed leaf.
    #[inline(always)]
    pub(super) fn propagate(self, leaf: Node<K, S>, holes: Holes<K>) {
        let Some(parent) = self.path.parent.filter(|parent| parent.kind() == Kind::Gap) else {
            return;
        };
        let (LeafPath { place, at, .. }, Holes { gone, made, .. }) = (self.path, holes);
        if holes.outermost {
            return propagate_last(parent, made);
        }
        let known = parent.gap(at);
        if made > known {
            propagate_from(parent, at, place.min, made);
        } else if gone == known && made < known {
            BoundedLeaf { leaf, ..place }.propagate_shrunk(parent, at, gone, made);
        }
    }
}
