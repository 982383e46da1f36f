//! Writes within one leaf: planned with one descent, and applied with few other reads.
//!
//! Most writes are of this kind. The rests of the touched slots and the new entry fit the leaf, and
//! leave enough slots in it. If not, a neighbour or a new leaf takes part ([`Rebalance`]). The
//! general [`plan`](super::plan) handles the rest: ranges over several leaves, split entries, inner
//! nodes that join, and roots.

mod apply;
mod here;

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, RawTree, Word};
use crate::read::{BoundedLeaf, LeafPath};
use crate::write::{Rebalance, SlotAt};

pub(super) use apply::Holes;

/// A classified write into one leaf.
///
/// The slots `from..=to` become: the rest of slot `from`, if `head`; the new slot; the rest of slot
/// `to`, if `tail`.
#[derive(Clone, Copy)]
pub(crate) struct Quick<K, S> {
    pub(crate) path: LeafPath<K, S>,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) head: bool,
    pub(crate) tail: bool,
    /// The range of the new slot: the requested one, and the adjacent holes if the new slot is a
    /// hole.
    pub(crate) first: K,
    pub(crate) last: K,
    /// The word of the new slot.
    pub(crate) word: Word,
    /// The number of slots afterwards.
    pub(crate) total: usize,
    pub(crate) rebalance: Rebalance,
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Returns `true` if the range is exactly that of a slot, so that only the word is exchanged.
    #[inline(always)]
    pub(crate) fn is_exact(self) -> bool {
        self.from == self.to
            && !self.head
            && !self.tail
            && matches!(self.rebalance, Rebalance::None)
    }

    /// Returns the number of nodes that the write takes.
    #[inline(always)]
    pub(crate) fn nodes(self, in_rcu: bool) -> usize {
        match self.rebalance {
            Rebalance::None => usize::from(in_rcu && !self.is_exact()),
            // Two leaves and their parent.
            _ if in_rcu => 3,
            Rebalance::Spill { nodes, .. } | Rebalance::Append(nodes) => usize::from(nodes),
            _ => 0,
        }
    }

    /// Returns the write of `word` to a range that is exactly the slots `from..=to`.
    #[inline(always)]
    fn over(path: LeafPath<K, S>, (from, to): (usize, usize), range: (K, K), word: Word) -> Self {
        Self {
            path,
            from,
            to,
            head: false,
            tail: false,
            first: range.0,
            last: range.1,
            word,
            total: 0,
            rebalance: Rebalance::None,
        }
    }

    /// Returns the write of `word` to `first..=last`, which begin and end in the slots `from` and
    /// `to`, without its rebalancing. The two booleans are `true` if the new hole continues in the
    /// leaf before, and in the one after. Returns `None` if the parent does not have that
    /// neighbour, or if only a hole would remain in the leaf.
    #[inline(always)]
    fn of_slots(
        path: LeafPath<K, S>,
        slots: (usize, usize),
        range: (K, K),
        word: Word,
    ) -> Option<(Self, (bool, bool))> {
        let BoundedLeaf { leaf, min, max } = path.place;
        let mut quick = Self::over(path, slots, range, word);
        let mut goes_on = (false, false);
        if word.is_null() {
            goes_on = quick.widen()?;
        }
        let Self { from, to, .. } = quick;
        quick.head = leaf.first(from, min) < quick.first;
        quick.tail = quick.last < leaf.last(to, max);
        quick.total = quick.total_of(leaf.used());
        let empties = quick.total == 1 && word.is_null();
        (!empties).then_some((quick, goes_on))
    }

    /// Returns the number of slots after the change in a leaf that has `used`.
    #[inline(always)]
    pub(super) fn total_of(&self, used: usize) -> usize {
        used + 1 + usize::from(self.head) + usize::from(self.tail) - (self.to + 1 - self.from)
    }

    /// Returns `true` if the range is strictly within an entry, which remains on both sides.
    #[inline(always)]
    fn splits(&self) -> bool {
        let leaf = self.path.place.leaf;
        self.head && self.tail && self.from == self.to && !leaf.slot(self.from).is_null()
    }

    /// Returns `true` if the leaf has room for its slots after the change.
    #[inline(always)]
    fn fits(&self) -> bool {
        self.total <= Geometry::<K, S>::SLOTS
    }

    /// Returns `true` if the leaf keeps enough slots.
    #[inline(always)]
    fn keeps_enough(&self) -> bool {
        if self.total >= Geometry::<K, S>::least(Kind::Leaf) {
            return true;
        }
        let BoundedLeaf { min, max, .. } = self.path.place;
        let shrinks = self.to - self.from > usize::from(self.head) + usize::from(self.tail);
        !shrinks || (min == K::MIN && max == K::MAX)
    }

    /// Does what [`of_slots`](Self::of_slots) does, and adds the rebalancing. Returns `None` also
    /// if the write is not a quick one.
    #[inline(always)]
    fn new(
        path: LeafPath<K, S>,
        slots: (usize, usize),
        range: (K, K),
        word: Word,
        tree: &RawTree<K, S>,
    ) -> Option<Self> {
        let (mut quick, goes_on) = Self::of_slots(path, slots, range, word)?;
        if quick.splits() {
            return None;
        }
        let (fits, enough) = (quick.fits(), quick.keeps_enough());
        quick.rebalance = match goes_on {
            (false, false) if fits && enough => Rebalance::None,
            (false, false) if fits => path.rebalance_underfull(quick.total)?,
            (false, false) => quick.find_room(tree, path)?,
            (before, after) if fits && enough && before != after => path.rebalance_hole(before)?,
            _ => return None,
        };
        Some(quick)
    }

    /// Calls [`LeafPath::find_room`], out of line because most writes do not need it.
    #[inline(never)]
    fn find_room(&self, tree: &RawTree<K, S>, path: LeafPath<K, S>) -> Option<Rebalance> {
        path.find_room(tree, (self.from, self.to), self.total)
    }

    /// Extends the new hole over the adjacent holes of the leaf. The two booleans are `true` if it
    /// continues in the leaf before, and in the one after. Returns `None` if the parent does not
    /// have that neighbour.
    #[inline(always)]
    fn widen(&mut self) -> Option<(bool, bool)> {
        let LeafPath { place, parent, at } = self.path;
        let BoundedLeaf { leaf, min, max } = place;
        let mut goes_on = (false, false);
        (self.from, self.first) = place.hole_to::<false>(self.from, self.first);
        if self.first == min && min != K::MIN && !leaf.slot(self.from).is_null() {
            let before = parent?.child(at.checked_sub(1)?);
            goes_on.0 = before.slot(before.end()).is_null();
        }
        (self.to, self.last) = place.hole_to::<true>(self.to, self.last);
        if self.last == max && max != K::MAX && !leaf.slot(self.to).is_null() {
            let parent = parent?;
            if at == parent.end() {
                return None;
            }
            goes_on.1 = parent.child(at + 1).slot(0).is_null();
        }
        Some(goes_on)
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Plans to store `word`, which is not NULL, at `first..=last` within the hole `at`. Returns
    /// `None` if that is not a quick write.
    #[inline(always)]
    pub(crate) fn try_fill_at(
        &self,
        at: SlotAt<K, S>,
        (first, last): (K, K),
        word: Word,
    ) -> Option<Quick<K, S>> {
        let SlotAt { path, slot, found } = at;
        debug_assert!(found.word.is_null() && !word.is_null());
        let (head, tail) = (found.first < first, last < found.last);
        let total = path.place.leaf.used() + usize::from(head) + usize::from(tail);
        let rebalance = if total <= Geometry::<K, S>::SLOTS {
            Rebalance::None
        } else {
            path.find_room(self, (slot, slot), total)?
        };
        Some(Quick {
            head,
            tail,
            total,
            rebalance,
            ..Quick::over(path, (slot, slot), (first, last), word)
        })
    }

    /// Plans to store `word` (NULL erases) at `first..=last`, which start in the slot `at`. Returns
    /// `None` if that is not a quick write.
    #[inline(always)]
    pub(crate) fn try_store_at(
        &self,
        at: SlotAt<K, S>,
        (first, last): (K, K),
        word: Word,
    ) -> Option<Quick<K, S>> {
        let SlotAt { path, slot, found } = at;
        if last > path.place.max {
            return None;
        }
        let to = if last <= found.last {
            slot
        } else {
            path.place.leaf.search(last)
        };
        Quick::new(path, (slot, to), (first, last), word, self)
    }
}
