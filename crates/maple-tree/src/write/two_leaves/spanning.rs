//! A range that begins in one leaf and ends in the next, stored without readers. The new slot goes
//! to one of the two, and the pivot between them moves.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Unread, Word};
use crate::read::{BoundedLeaf, LeafPath};
use crate::write::{Hint, Quick, Removed};

/// The slots of a leaf that a range covers or cuts: in the first leaf from `slot` on, in the second
/// up to `slot`.
struct Part<K> {
    slot: usize,
    /// `true` if a part of the slot remains outside the range.
    cut: bool,
    /// The start of the range in the first leaf, or its end in the second one.
    bound: K,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Stores `word` (NULL erases) at `first..=last`, if the range ends in the next leaf of the
    /// same parent and both leaves keep enough slots. The range begins in the slot `hint`. Returns
    /// `true` if it did; `removed` then has the covered entries. Otherwise nothing has changed. The
    /// tree must not have changed since `hint` was found.
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
        let next = BoundedLeaf {
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
        let pair = Pair {
            left,
            right,
            in_left: begin.slot + usize::from(begin.cut),
            from: end.slot + usize::from(!end.cut),
            begin,
            end,
        };
        let in_right = right.used() - pair.from;
        // The new slot goes to the leaf with fewer slots.
        let to_left = pair.in_left < in_right;
        let used = pair.in_left + usize::from(to_left);
        let used_next = in_right + usize::from(!to_left);
        let least = Geometry::<K, S>::least(Kind::Leaf);
        let slots = Geometry::<K, S>::SLOTS;
        // The number of slots that go.
        let gone = left.used() - pair.in_left + pair.from;
        if used < least || used_next < least || used.max(used_next) > slots || gone > removed.room()
        {
            return false;
        }
        removed.covered(place, hint.slot(), (first, last));
        removed.covered(next, 0, (first, last));
        let bound = if to_left {
            pair.store_in_left(word, unread)
        } else {
            pair.store_in_right(word, unread)
        };
        Quick::set_pair(parent.write(unread), at, (place.min, next.max), bound);
        #[cfg(feature = "tracing")]
        crate::base::events::nodes(crate::write::StoreType::Spanning, first, last, 0);
        true
    }
}

/// Two adjacent leaves, and the slots of each that a range covers or cuts.
struct Pair<K, S> {
    left: Node<K, S>,
    right: Node<K, S>,
    begin: Part<K>,
    end: Part<K>,
    /// The number of slots that stay in the left leaf.
    in_left: usize,
    /// The first slot that stays in the right leaf.
    from: usize,
}

impl<K: Key, S: Shape> Pair<K, S> {
    /// Makes the new slot the last one of the left leaf. Returns the leaf's new last index.
    #[inline(always)]
    fn store_in_left(&self, word: Word, unread: Unread) -> K {
        let Self { left, right, .. } = *self;
        let (before, used) = (left.used(), self.in_left + 1);
        let (node, node_next) = (left.write(unread), right.write(unread));
        if self.begin.cut {
            node.set_pivot(self.begin.slot, self.begin.bound.wrapping_sub(K::ONE));
        }
        node.set_used(used, before.max(used));
        node.set_slot(self.in_left, word);
        node_next.close_up(self.from, 0, right.end());
        self.end.bound
    }

    /// Makes the new slot the first one of the right leaf. Returns the left leaf's new last index.
    #[inline(always)]
    fn store_in_right(&self, word: Word, unread: Unread) -> K {
        let Self { left, right, .. } = *self;
        let (node, node_next) = (left.write(unread), right.write(unread));
        node.set_used(self.in_left, left.used());
        match self.from {
            0 => node_next.open(0, right.end(), right.end() + 1),
            _ => node_next.close_up(self.from, 1, right.end()),
        }
        node_next.set_slot(0, word);
        node_next.set_pivot(0, self.end.bound);
        self.begin.bound.wrapping_sub(K::ONE)
    }
}

/// Returns the slots that a range covers or cuts in the first leaf, which it begins in, or, if
/// `UP`, in the second one, which it ends in. The bound is `key`, in slot `slot`. Returns `None` if
/// nothing would remain of the leaf.
#[inline(always)]
fn part<const UP: bool, K: Key, S: Shape>(
    place: BoundedLeaf<K, S>,
    slot: usize,
    key: K,
    word: Word,
) -> Option<Part<K>> {
    // A new hole joins an adjacent hole.
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
