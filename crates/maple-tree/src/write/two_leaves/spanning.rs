//! A range that begins in one leaf and ends in the next, without concurrent readers: the new slot
//! goes to one of the two, and the bound between them moves.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, RawTree, Unread, Word};
use crate::read::{LeafPath, Place};
use crate::write::{Hint, Quick, Removed};

/// The slots of a leaf that a range covers or cuts: of the first leaf from `slot` on, of the second up to it.
struct Part<K> {
    slot: usize,
    /// Something of the slot is left outside of the range.
    cut: bool,
    /// The start of the range in the first leaf, or its end in the second one.
    bound: K,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Makes `first..=last`, which begin in the slot `hint`, hold `word` (NULL erases), if they end in the next leaf, which has the same parent, both keep
    /// enough slots. Tells whether that is so; if not, nothing has changed. The entries that it covers are in `removed` then. The tree has not changed since
    /// `hint` was found.
    #[inline(never)]
    pub(crate) fn store_spanning(
        &self,
        hint: &Hint<K, S>,
        (first, last): (K, K),
        word: Word,
        removed: &mut Removed<K>,
        unread: Unread,
    ) -> bool {
        let LeafPath { place, parent, at } = hint.path();
        let Some(parent) = parent.filter(|parent| last > place.max && at < parent.end()) else {
            return false;
        };
        let next = Place {
            leaf: parent.child(at + 1).as_leaf(),
            min: place.max.wrapping_add(K::ONE),
            max: parent.edge::<true>(at + 1, place.max, parent.kind()),
        };
        if last > next.max {
            return false;
        }
        let (left, right) = (place.leaf, next.leaf);
        let (Some(begin), Some(end)) = (
            part::<false, K, S>(place, hint.slot(), first, word),
            part::<true, K, S>(next, next.leaf.search(last), last, word),
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
        if used < least || used_next < least || used.max(used_next) > slots || gone > removed.room()
        {
            return false;
        }
        removed.covered(place, hint.slot(), (first, last));
        removed.covered(next, 0, (first, last));
        let before = left.used();
        let (node, node_next) = (left.write(unread), right.write(unread));
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
        Quick::set_pair(parent.write(unread), at, (place.min, next.max), bound);
        #[cfg(feature = "tracing")]
        crate::base::events::nodes(crate::write::StoreType::Spanning, first, last, 0);
        true
    }
}

/// The slots that a range covers or cuts in the first leaf, whose end it is in, or in the second one if `UP`: it ends at `key`, in slot `slot`. `None` if nothing would be left of the leaf.
#[inline(always)]
fn part<const UP: bool, K: Key, S: Shape>(
    place: Place<K, S>,
    slot: usize,
    key: K,
    word: Word,
) -> Option<Part<K>> {
    // A hole is one with the hole that it meets.
    let (slot, bound) = match word.is_null() {
        true => place.hole_to::<UP>(slot, key),
        false => (slot, key),
    };
    let found = place.slot(slot);
    let (edge, outermost) = match UP {
        true => (found.last, place.leaf.end()),
        false => (found.first, 0),
    };
    let cut = bound != edge;
    (cut || slot != outermost).then_some(Part { slot, cut, bound })
}
