//! Writes that change one slot of a leaf, made without readers: a part of a hole becomes an entry,
//! or an entry becomes a hole. One descent, a few stores.
//!
//! Most writes are of this kind. Whatever needs more is left unchanged, for
//! [`one_leaf`](super::one_leaf) or the general [`plan`](super::plan): a full leaf, a leaf with too
//! few slots, a root that is not a node.

mod absorb;

use core::hint::select_unpredictable;

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, NodeMut, RawTree, Root, Unread, Word};
use crate::read::{BoundedLeaf, Found, LeafPath, path};
use crate::write::holes::{largest_of, propagate_first, propagate_from, propagate_last};

/// A slot, and the path to it.
#[derive(Clone, Copy)]
pub(crate) struct SlotAt<K, S> {
    pub(crate) path: LeafPath<K, S>,
    pub(crate) slot: usize,
    /// The slot's range and word.
    pub(crate) found: Found<K>,
}

impl<K: Key, S: Shape> SlotAt<K, S> {
    /// Returns a slot of a leaf.
    #[inline(always)]
    pub(crate) fn of(path: LeafPath<K, S>, slot: usize) -> Self {
        let found = path.place.slot(slot);
        Self { path, slot, found }
    }

    /// Returns `true` if the slot is an entry with exactly this range.
    #[inline(always)]
    pub(crate) fn is_entry(&self, first: K, last: K) -> bool {
        let found = self.found;
        found.first == first && found.last == last && !found.word.is_null()
    }

    /// Exchanges the entry's word for another, which is valid in the tree. Readers see it at once.
    /// The nodes above need no update. Only for the writer.
    #[inline(always)]
    pub(crate) fn exchange(self, word: Word) {
        debug_assert!(!self.found.word.is_null() && !word.is_null());
        self.path.place.leaf.as_leaf().publish(self.slot, word);
    }
}

/// A part of a hole that will become an entry.
#[derive(Clone, Copy)]
pub(crate) struct Part<K> {
    first: K,
    last: K,
    /// `true` if a part of the hole remains before the entry (`head`), or after it (`tail`).
    head: bool,
    tail: bool,
}

impl<K: Key> Part<K> {
    /// Returns the number of additional slots that the entry needs.
    #[inline(always)]
    fn more(self) -> usize {
        usize::from(self.head) + usize::from(self.tail)
    }

    /// Returns the size of the leaf's largest hole once the part is an entry. Call it before the
    /// leaf changes: a larger load cannot be forwarded from several smaller stores, so reading back
    /// what was just written would stall.
    #[inline(always)]
    fn largest_with<S: Shape>(self, at: SlotAt<K, S>) -> K {
        let SlotAt { path, slot, found } = at;
        let BoundedLeaf { leaf, min, max } = path.place;
        // The larger remainder of the hole.
        let before = self.first.wrapping_sub(found.first);
        let rest = before.max(found.last.wrapping_sub(self.last));
        let gone = K::span(found.first, found.last);
        if rest >= K::span(min, max).wrapping_sub(gone) {
            // No other hole can be larger than all that the other slots cover.
            return rest;
        }
        rest.max(largest_of(leaf, leaf.holes() & !(1 << slot), min, max))
    }

    /// Makes the part an entry in a leaf that has room. The hole is its slot `slot`, and its last
    /// slot is `end`.
    #[inline(always)]
    fn put<S: Shape>(self, node: NodeMut<K, S>, slot: usize, end: usize, word: Word) {
        let new_end = end + self.more();
        node.open(slot, end, new_end);
        let middle = slot + usize::from(self.head);
        // No branch on what remains of the hole, which is unpredictable: without a part before, the
        // second pivot overwrites the first.
        let pivots = Geometry::<K, S>::SLOTS - 1;
        if slot < pivots {
            node.set_pivot(slot, self.first.wrapping_sub(K::ONE));
        }
        if middle < pivots {
            let bound = select_unpredictable(middle < new_end, self.last, K::MAX);
            node.set_pivot(middle, bound);
        }
        node.set_slot(middle, word);
    }
}

impl<K: Key, S: Shape> LeafPath<K, S> {
    /// Returns the slot that covers `key`, which is in the leaf's range.
    #[inline(always)]
    pub(crate) fn slot_at(self, key: K) -> SlotAt<K, S> {
        SlotAt::of(self, self.place.leaf.search(key))
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns the slot that covers `key`, or `None` in a tree without nodes.
    #[inline(always)]
    pub(crate) fn slot_at(&self, key: K) -> Option<SlotAt<K, S>> {
        let Root::Node(root) = self.root() else {
            return None;
        };
        Some(path::find(root, key).slot_at(key))
    }

    /// Returns the slot that covers `key` in a leaf found earlier, which is still in the tree with
    /// these bounds. Only for the writer.
    #[inline(always)]
    pub(crate) fn slot_in(&self, place: BoundedLeaf<K, S>, key: K) -> SlotAt<K, S> {
        let parent = place.leaf.parent(self.inner_kind());
        let at = parent.map_or(0, |parent| parent.search(place.min));
        LeafPath { place, parent, at }.slot_at(key)
    }

    /// Stores a word, which is not NULL, at `first..=last` within the hole `at`, if the leaf has
    /// room. Returns `true` if it did. The tree must not have changed since `at` was found.
    #[inline(always)]
    pub(crate) fn fill_hole(
        &self,
        at: SlotAt<K, S>,
        (first, last): (K, K),
        word: Word,
        unread: Unread,
    ) -> bool {
        let SlotAt { path, slot, found } = at;
        let leaf = path.place.leaf;
        let part = Part {
            first,
            last,
            head: found.first < first,
            tail: last < found.last,
        };
        let end = leaf.end();
        if end + part.more() >= Geometry::<K, S>::SLOTS {
            return false;
        }
        // The parent and its new gap, if that changes.
        let mut parent_gap = None;
        if let Some(parent) = path.parent
            && self.tracks_gaps()
        {
            let gone = K::span(found.first, found.last);
            if parent.gap(path.at) == gone {
                let after = found.last.wrapping_sub(last);
                if found.last == K::MAX && after >= last {
                    // All indices before it are fewer than that.
                    propagate_last(parent, after);
                } else {
                    parent_gap = Some((parent, part.largest_with(at)));
                }
            }
        }
        part.put(leaf.write(unread), slot, end, word);
        if let Some((parent, gap)) = parent_gap {
            if found.first == K::MIN {
                propagate_first(parent, path.at, first, gap);
            } else {
                propagate_from(parent, path.at, first, gap);
            }
        }
        true
    }

    /// Makes the entry `at` a hole, if the leaf keeps enough slots. Returns `true` if it did. At an
    /// end of the leaf, the hole may extend into the neighbour, unless `alone` forbids it. The tree
    /// must not have changed since `at` was found.
    #[inline(always)]
    pub(crate) fn vacate(&self, at: SlotAt<K, S>, alone: bool, unread: Unread) -> bool {
        let SlotAt { path, slot, found } = at;
        let mut place = path.place;
        let BoundedLeaf { leaf, min, max } = place;
        let end = leaf.end();
        // At slot 0, the entry itself stands in for the slot before: it is not a hole.
        let left = leaf.slot(slot.saturating_sub(1)).is_null();
        let right = slot < end && leaf.slot((slot + 1).min(end)).is_null();
        let joined = usize::from(left) + usize::from(right);
        let used = end + 1 - joined;
        let enough = used >= Geometry::<K, S>::least(Kind::Leaf) || joined == 0;
        if !enough || used == 1 {
            return false;
        }
        let (begins, ends) = (slot == 0 && min != K::MIN, slot == end && max != K::MAX);
        if begins || ends {
            let wide = match (alone, ends) {
                (true, _) => None,
                (false, true) => path.absorb_hole::<true>(unread),
                (false, false) => path.absorb_hole::<false>(unread),
            };
            match wide {
                Some(wide) => place = wide,
                None => return false,
            }
        }
        let first = leaf.first(slot - usize::from(left), place.min);
        let last = leaf.last(slot + usize::from(right), place.max);
        leaf.write(unread).close(slot, left, right, end);
        if let Some(parent) = path.parent
            && self.tracks_gaps()
        {
            let made = K::span(first, last);
            if made > parent.gap(path.at) {
                propagate_from(parent, path.at, found.first, made);
            }
        }
        true
    }
}
