//! A range that begins in one leaf and ends in the next, where nobody reads: what is new goes to one of the two, and the bound between them moves.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Word};
use crate::read::{Found, Place};
use crate::write::apply::Removed;
use crate::write::one_leaf::Quick;
use crate::write::seat::Seat;

/// The slots of a leaf that a range covers or cuts: of the first leaf from `slot` on, of the second up to it.
struct Part<K> {
    slot: usize,
    /// Something of the slot is left outside of the range.
    cut: bool,
    /// Where the range begins in the first leaf, or ends in the second one.
    bound: K,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Makes `first..=last`, which begin in the slot `seat`, hold `word` (NULL erases), if they end in the next leaf, which has the same parent, both keep
    /// enough slots, and nobody reads. Tells whether that is so; if not, nothing has changed. The entries that it covers are in `removed` then.
    ///
    /// # Safety
    ///
    /// As for [`store_here`](Self::store_here).
    #[inline(never)]
    pub(crate) unsafe fn store_spanning(
        &self,
        seat: &Seat<K, S>,
        (first, last): (K, K),
        word: Word,
        removed: &mut Removed<K>,
    ) -> bool {
        // SAFETY: they are in the tree (the caller's promise).
        let (place, parent) = unsafe { (seat.place(), seat.parent()) };
        let Some(parent) = parent else {
            return false;
        };
        let at = seat.at as usize;
        if last <= place.max || at == parent.end() || self.in_rcu() {
            return false;
        }
        let next = Place {
            leaf: parent.child(at + 1).as_leaf(),
            min: place.max.wrapping_add(K::ONE),
            max: if at + 1 < parent.end() {
                parent.pivot(at + 1)
            } else {
                parent.bound::<true>(place.max, parent.kind())
            },
        };
        if last > next.max {
            return false;
        }
        let (left, right) = (place.leaf, next.leaf);
        let (Some(begin), Some(end)) = (
            begin(place, seat.slot(), first, word),
            finish(next, last, word),
        ) else {
            return false;
        };
        // How many slots stay in each, and whether the new one goes to the left leaf.
        let in_left = begin.slot + usize::from(begin.cut);
        let from = end.slot + usize::from(!end.cut);
        let in_right = right.used() - from;
        let least = Geometry::<K, S>::least(Kind::Leaf);
        let slots = Geometry::<K, S>::SLOTS;
        let to_left = in_left < in_right;
        let (used, used_next) = (
            in_left + usize::from(to_left),
            in_right + usize::from(!to_left),
        );
        // Of the slots that go.
        let gone = left.used() - in_left + from;
        if used < least
            || used_next < least
            || used.max(used_next) > slots
            || gone > Removed::<K>::MOST
        {
            return false;
        }
        covered(place, seat.slot(), (first, last), removed);
        covered(next, 0, (first, last), removed);
        let before = left.used();
        // SAFETY: not in RCU mode, so that nobody reads (the caller's promise).
        let (node, node_next) = unsafe { (left.write(), right.write()) };
        if begin.cut && to_left {
            node.set_pivot(begin.slot, begin.bound.wrapping_sub(K::ONE));
        }
        node.set_used(used, before.max(used));
        if to_left {
            node.set_slot(in_left, word);
            node_next.close_up(from, 0, right.end());
        } else {
            match from {
                0 => node_next.open(0, right.end(), right.end() + 1),
                _ => node_next.close_up(from, 1, right.end()),
            }
            node_next.set_slot(0, word);
            node_next.set_pivot(0, end.bound);
        }
        let bound = if to_left {
            end.bound
        } else {
            begin.bound.wrapping_sub(K::ONE)
        };
        // SAFETY: as above.
        unsafe { Quick::set_pair(parent, at, (place.min, next.max), bound) };
        #[cfg(feature = "tracing")]
        crate::base::events::nodes(crate::write::StoreType::Spanning, first, last, 0);
        true
    }
}

/// The slots of the first leaf, from `slot` on. `None` if nothing would be left of it.
#[inline(always)]
fn begin<K: Key, S: Shape>(
    place: Place<K, S>,
    slot: usize,
    first: K,
    word: Word,
) -> Option<Part<K>> {
    let found = place.slot(slot);
    let (mut slot, mut bound) = (slot, first);
    let mut cut = found.first < first;
    if word.is_null() {
        // It is one with the hole that it meets.
        if found.word.is_null() {
            (bound, cut) = (found.first, false);
        } else if !cut && slot > 0 && place.leaf.slot(slot - 1).is_null() {
            slot -= 1;
            bound = place.leaf.first(slot, place.min);
        }
    }
    (cut || slot > 0).then_some(Part { slot, cut, bound })
}

/// The slots of the second leaf. `None` if nothing would be left of it.
#[inline(always)]
fn finish<K: Key, S: Shape>(place: Place<K, S>, last: K, word: Word) -> Option<Part<K>> {
    let Place { leaf, max, .. } = place;
    let mut slot = leaf.search(last);
    let found: Found<K> = place.slot(slot);
    let mut bound = last;
    let mut cut = last < found.last;
    if word.is_null() {
        if found.word.is_null() {
            (bound, cut) = (found.last, false);
        } else if !cut && slot < leaf.end() && leaf.slot(slot + 1).is_null() {
            slot += 1;
            bound = leaf.last(slot, max);
        }
    }
    (cut || slot < leaf.end()).then_some(Part { slot, cut, bound })
}

/// Notes the entries of a leaf, from a slot on, that a range covers.
#[inline(always)]
fn covered<K: Key, S: Shape>(
    place: Place<K, S>,
    from: usize,
    (first, last): (K, K),
    removed: &mut Removed<K>,
) {
    let leaf: Node<K, S> = place.leaf;
    for i in from..leaf.used() {
        let found = place.slot(i);
        if found.first > last {
            return;
        }
        if !found.word.is_null() && first <= found.first && found.last <= last {
            removed.removes(found);
        }
    }
}
