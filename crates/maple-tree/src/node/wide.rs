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

#[cfg(test)]
mod tests {
    use crate::base::key::{Key, Offset};
    use crate::base::shape::{Fanout, Native, Shape};
    use crate::node::testing::Memory;
    use crate::node::{Geometry, Kind};

    /// Makes one slot after the other wider than the rest, in leaves with every number of slots in use.
    fn tells_each_slot<K: Key, S: Shape>() {
        let number = |n: usize| (0..n).fold(K::MIN, |sum, _| sum.wrapping_add(K::ONE));
        for used in 1..=Geometry::<K, S>::SLOTS {
            for wide in 0..used {
                let mut memory = Memory::new();
                let leaf = memory.node::<K, S>(Kind::Leaf);
                let first = number(10);
                let mut next = first;
                for i in 0..used {
                    next = next.wrapping_add(number(if i == wide { 3 } else { 2 }));
                    if i + 1 < used {
                        leaf.set_pivot(i, next.wrapping_sub(K::ONE));
                    }
                }
                leaf.set_end(used - 1);
                let (leaf, last) = (leaf.node(), next.wrapping_sub(K::ONE));
                let all = u32::MAX >> (32 - used);
                for (size, expected) in [(2, all), (3, 1 << wide), (4, 0)] {
                    let up = leaf.wide::<true>(number(size), first);
                    let down = leaf.wide::<false>(number(size), last);
                    assert_eq!(up & all, expected | 1 << (used - 1), "{size}, {used} slots");
                    assert_eq!(down & all, expected | 1, "{size}, {used} slots");
                }
            }
        }
    }

    #[test]
    fn slots_that_are_wide_enough_are_told_one_by_one() {
        tells_each_slot::<u32, Native>();
        tells_each_slot::<i32, Native>();
        tells_each_slot::<u64, Native>();
        tells_each_slot::<i64, Native>();
        tells_each_slot::<u128, Native>();
        tells_each_slot::<u64, Fanout<4>>();
        tells_each_slot::<u64, Fanout<5>>();
        tells_each_slot::<i128, Fanout<7>>();
    }
}
