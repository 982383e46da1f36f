//! A new hole that continues in the next leaf, or in the one before. A hole must be one slot, so
//! the other leaf gives up its part, and the pivot between the two moves.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Unread};
use crate::read::{BoundedLeaf, LeafPath};
use crate::write::holes::{largest_in_leaf, propagate_from};

impl<K: Key, S: Shape> LeafPath<K, S> {
    /// Extends a leaf by the adjacent hole of a neighbour: the hole that starts the next leaf
    /// (`UP`), or the hole that ends the one before. The neighbour exists. Returns the leaf with
    /// its new range, to which its slot at that end now extends. If the neighbour has no such hole,
    /// the range is unchanged. Returns `None`, and changes nothing, if the neighbour would have too
    /// few slots.
    #[inline(never)]
    pub(in crate::write) fn absorb_hole<const UP: bool>(
        self,
        unread: Unread,
    ) -> Option<BoundedLeaf<K, S>> {
        let Self { place, parent, .. } = self;
        let inner = parent?.kind();
        let edge = if UP { place.max } else { place.min };
        let (above, pivot, levels) = place.leaf.bounding::<UP>(edge, inner)?;
        let other = above.adjacent_to_pivot::<UP>(pivot, levels).as_leaf();
        let used = other.used();
        if !other.slot(if UP { 0 } else { used - 1 }).is_null() {
            return Some(place);
        }
        if used <= Geometry::<K, S>::least(Kind::Leaf) {
            return None;
        }
        // The end of the hole, and an index of what remains of the other leaf.
        let (wide, there, gone) = if UP {
            let max = other.pivot(0);
            let there = max.wrapping_add(K::ONE);
            (BoundedLeaf { max, ..place }, there, max.wrapping_sub(edge))
        } else {
            let there = other.pivot(used - 2);
            let min = there.wrapping_add(K::ONE);
            (BoundedLeaf { min, ..place }, there, edge.wrapping_sub(min))
        };
        let bound = if UP { wide.max } else { there };
        above.write(unread).set_pivot(pivot, bound);
        if UP {
            other.write(unread).close_up(1, 0, used - 1);
        } else {
            other.write(unread).set_used(used - 1, used);
        }
        if let Some(parent) = other.parent(Kind::Gap).filter(|_| inner == Kind::Gap) {
            let at = parent.search(there);
            if parent.gap(at) == gone {
                let far = other.bound::<UP>(there, inner);
                let largest = largest_in_leaf(other, there.min(far), there.max(far));
                propagate_from(parent, at, there, largest);
            }
        }
        Some(wide)
    }
}
