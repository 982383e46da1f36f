//! A change of a few slots of one leaf, made where nobody reads: in one pass over the slots that it concerns, and a few stores.
//!
//! It makes the writes for which the leaf has room and keeps enough. What concerns more is left as it is, for the ways that plan.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, RawTree, Word};
use crate::read::{Found, Place};
use crate::write::apply::Removed;
use crate::write::holes::{tell_last, tell_made};
use crate::write::one_slot::SlotAt;
use crate::write::seat::Seat;

impl<K: Key, S: Shape> SlotAt<K, S> {
    /// Whether the range, which starts in the slot, is within an entry, which goes on at both ends of it.
    #[inline(always)]
    pub(crate) fn is_within(&self, first: K, last: K) -> bool {
        let found = self.found;
        found.first < first && last < found.last && !found.word.is_null()
    }

    /// Whether the leaf has room for two slots more.
    #[inline(always)]
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.spot.place.leaf.used() + 2 <= Geometry::<K, S>::SLOTS
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Makes `first..=last`, which begin in the slot `seat` or in the one before, hold `word` (NULL erases), if they are within the leaf, that has room and
    /// keeps enough, and nobody reads. Tells whether that is so; if not, nothing has changed. The entries that it covers are in `removed` then.
    ///
    /// Of an entry that goes on at both ends the part above gets the word `twin`, which is NULL otherwise.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and the tree has not changed since `seat` was found.
    /// * Unless the tree is in RCU mode, nobody reads it meanwhile.
    /// * The words may stand in this tree.
    #[inline(never)]
    pub(crate) unsafe fn store_here(
        &self,
        seat: &Seat<K, S>,
        (mut first, mut last): (K, K),
        word: Word,
        twin: Word,
        removed: &mut Removed<K>,
    ) -> bool {
        if last > seat.max || self.in_rcu() {
            return false;
        }
        // SAFETY: it is in the tree (the caller's promise).
        let place = unsafe { seat.place() };
        let Place { leaf, min, max } = place;
        let mut slot = seat.slot();
        let mut found = place.slot(slot);
        if first < found.first {
            if slot == 0 {
                return false;
            }
            slot -= 1;
            found = place.slot(slot);
            if first < found.first {
                return false;
            }
        }
        let end = leaf.end();
        let (mut from, mut to) = (slot, slot);
        // The last slot that is touched, and the largest hole of those.
        let mut there = found;
        let mut gone = K::MIN;
        loop {
            if there.word.is_null() {
                gone = gone.max(K::span(there.first, there.last));
            } else if first <= there.first && there.last <= last {
                removed.removes(there);
            }
            if last <= there.last {
                break;
            }
            to += 1;
            there = Found {
                first: there.last.wrapping_add(K::ONE),
                last: leaf.last(to, max),
                word: leaf.slot(to),
            };
        }
        let (hole_before, hole_after) = (found.word.is_null(), there.word.is_null());
        let mut head = found.first < first;
        let mut tail = last < there.last;
        if (head && tail && slot == to && !hole_before) == twin.is_null() {
            return false;
        }
        let made = if word.is_null() {
            // It is one with the holes that it meets.
            if hole_before {
                first = found.first;
                head = false;
            } else if !head && from > 0 {
                if leaf.slot(from - 1).is_null() {
                    from -= 1;
                    let before = leaf.first(from, min);
                    gone = gone.max(first.wrapping_sub(before));
                    first = before;
                }
            } else if !head && min != K::MIN {
                return false;
            }
            if hole_after {
                last = there.last;
                tail = false;
            } else if !tail && to < end {
                if leaf.slot(to + 1).is_null() {
                    to += 1;
                    let after = leaf.last(to, max);
                    gone = gone.max(after.wrapping_sub(last));
                    last = after;
                }
            } else if !tail && max != K::MAX {
                return false;
            }
            K::span(first, last)
        } else {
            let before = first.wrapping_sub(found.first);
            let after = there.last.wrapping_sub(last);
            let before = if hole_before { before } else { K::MIN };
            before.max(if hole_after { after } else { K::MIN })
        };
        // The new slot, and the first of those that stay.
        let middle = from + usize::from(head);
        let rest = to + 1 - usize::from(tail);
        let new_end = end + middle + 1 - rest;
        let enough = new_end + 1 >= Geometry::<K, S>::least(Kind::Leaf)
            || new_end >= end
            || (min == K::MIN && max == K::MAX);
        let empties = new_end == 0 && word.is_null();
        if new_end >= Geometry::<K, S>::SLOTS || !enough || empties {
            return false;
        }
        // SAFETY: not in RCU mode, so that nobody reads (the caller's promise).
        let node = unsafe { leaf.write() };
        if rest <= middle {
            node.open(rest, end, new_end);
        } else {
            node.close_up(rest, middle + 1, end);
        }
        if head {
            node.set_pivot(from, first.wrapping_sub(K::ONE));
        }
        node.set_slot(middle, word);
        if middle < new_end {
            node.set_pivot(middle, last);
            if !twin.is_null() {
                node.set_slot(middle + 1, twin);
            }
        }
        // SAFETY: it is in the tree (the caller's promise).
        if let Some(parent) = unsafe { seat.parent() }
            && parent.kind() == Kind::Gap
        {
            if tail && hole_after && there.last == K::MAX && made >= last {
                // The last hole of the tree, and all that is before has fewer indices than that.
                tell_last(parent, made);
            } else {
                tell_made(parent, seat.at as usize, place, gone, made);
            }
        }
        true
    }
}
