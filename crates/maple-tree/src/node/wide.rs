//! The holes of a leaf that are wide enough. All slots are examined together, without a branch,
//! because the right one is unpredictable.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Node, bits};

impl<K: Key, S: Shape> Node<K, S> {
    /// Returns the holes of more than `others` indices in a leaf that has one: bit `i` for slot
    /// `i`. `edge` is the bound of the leaf where the direction (`UP` or down) begins. A hole at
    /// the other bound is included, whatever its size, and so may be a slot after the end. These
    /// come last in the direction. Only for the writer.
    #[inline(always)]
    pub(crate) fn wide_holes<const UP: bool>(self, others: K, edge: K) -> u32 {
        debug_assert!(self.is_leaf());
        let slots = Geometry::<K, S>::SLOTS;
        let wide = |i| others < self.pivot(i + 1).wrapping_sub(self.pivot(i));
        let wide = bits::of(slots - 2, wide) << 1;
        if UP {
            // Slots after the end are not wide, except for one without a pivot. If the last slot
            // has a pivot, that is the largest key.
            let first = u32::from(others <= self.pivot(0).wrapping_sub(edge));
            // SAFETY: nothing else writes.
            !unsafe { self.entries() } & (wide | first | u32::MAX << (slots - 1))
        } else {
            let (holes, end) = (self.holes(), self.end());
            let held = edge.wrapping_sub(self.pivot(end.saturating_sub(1)));
            let last = u32::from(others < held) << end;
            holes & (wide & !(1 << end) | last | 1)
        }
    }
}
