//! Which holes of a leaf are wide enough: all slots are looked at together, without a branch. Which of them it is, is as good as random.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Node};

impl<K: Key, S: Shape> Node<K, S> {
    /// The first hole on the way `UP`, or down, in a leaf that has one of at least `size` indices, which is not 0. Of the leaf's bounds, the one
    /// that the way begins at is needed: `edge`. Only for whoever may write the tree.
    #[inline(always)]
    pub(crate) fn wide_hole<const UP: bool>(self, size: K, edge: K) -> Option<usize> {
        // SAFETY: nobody else writes.
        let holes = !unsafe { self.entries() } & self.wide::<UP>(size, edge);
        if UP {
            (holes != 0).then(|| holes.trailing_zeros() as usize)
        } else {
            let holes = holes & (u32::MAX >> (31 - self.end()));
            holes.checked_ilog2().map(|slot| slot as usize)
        }
    }

    /// Which slots of a leaf have ranges of at least `size` indices: bit `i` for slot `i`. `edge` as for [`wide_hole`](Self::wide_hole); the slot at the
    /// other bound counts as wide enough. Slots after the end do not, `UP`, but for those that come after all pivots; down they are anything.
    #[inline(always)]
    fn wide<const UP: bool>(self, size: K, edge: K) -> u32 {
        debug_assert!(self.is_leaf() && size > K::MIN);
        let slots = Geometry::<K, S>::SLOTS;
        // Bit `i` for slot `i + 1`. Subtracted: a sum is taken for an `or` of bits, which takes more instructions.
        let mut narrow = 0u32;
        for i in (0..slots - 2).rev() {
            let held = self.pivot(i + 1).wrapping_sub(self.pivot(i));
            let bit = u32::from(held < size);
            narrow = narrow.wrapping_add(narrow).wrapping_sub(bit);
        }
        // Slots that have no pivot of their own are wide. If the last slot has one, that is the largest key.
        let wide = !narrow.wrapping_neg() << 1;
        if UP {
            let others = self.pivot(0).wrapping_sub(edge);
            wide | u32::from(others >= size.wrapping_sub(K::ONE))
        } else {
            let end = self.end();
            let held = edge.wrapping_sub(self.pivot(end.saturating_sub(1)));
            wide & !(1 << end) | u32::from(held >= size) << end | 1
        }
    }
}
