//! Finding the slot that covers a key, without a branch on the node's contents.

use core::marker::PhantomData;

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node, bits};

/// The distance between the pivots that the first stage of a search compares.
struct Stride<K, S>(PhantomData<fn() -> (K, S)>);

impl<K: Key, S: Shape> Stride<K, S> {
    const NODE: usize = Self::of(Geometry::<K, S>::SLOTS);
    const GAP_NODE: usize = Self::of(Geometry::<K, S>::GAP_SLOTS);

    /// Returns the stride that takes the fewest comparisons in a node of `slots`. On a tie, prefers
    /// one that divides `slots`, then the larger one.
    const fn of(slots: usize) -> usize {
        let mut best = slots;
        let mut least = usize::MAX;
        let mut stride = slots;
        while stride > 1 {
            let cost =
                2 * ((slots - 1) / stride + stride - 1) + !slots.is_multiple_of(stride) as usize;
            if cost < least {
                best = stride;
                least = cost;
            }
            stride -= 1;
        }
        best
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// Returns the slot whose range contains `key`, which is within the node's bounds.
    #[inline(always)]
    pub(crate) fn search(self, key: K) -> usize {
        match self.kind {
            Kind::Leaf | Kind::Range => self.count_below::<false>(key),
            Kind::Gap => self.count_below::<true>(key),
        }
    }

    /// Returns the number of pivots below `key`, in two stages. Every `STRIDE`th pivot determines
    /// the group of slots, and the pivots within that group determine the slot. Trip counts are
    /// constants and no branch depends on data: a mispredicted exit would cost more than the
    /// comparisons. Six comparisons of fifteen pivots, five of nine.
    #[inline(always)]
    fn count_below<const GAP: bool>(self, key: K) -> usize {
        let (slots, stride) = if GAP {
            (Geometry::<K, S>::GAP_SLOTS, Stride::<K, S>::GAP_NODE)
        } else {
            (Geometry::<K, S>::SLOTS, Stride::<K, S>::NODE)
        };
        // In 32 bits: with a machine word the compiler multiplies each comparison's result by the
        // slot's width and adds them up one by one, which takes twice the instructions.
        let mut groups = 0u32;
        let mut i = stride - 1;
        while i < slots - 1 {
            // SAFETY: as in `pivot`.
            groups += u32::from(unsafe { self.cells.pivot(i) } < key);
            i += stride;
        }
        let mut at = groups as usize * stride;
        if !slots.is_multiple_of(stride) {
            // The last group is short. If it starts earlier, pivots that are known to be below
            // `key` are counted.
            at = at.min(slots - stride);
        }
        // If the compiler sees the terms of a sum in an address, it moves each there by an
        // instruction of its own. As an opaque sum, a comparison takes two instructions rather than
        // four.
        let at = bits::opaque(at);
        let mut within = 0u32;
        for i in 0..stride - 1 {
            // SAFETY: as in `pivot`: `at` is at most `slots - stride`.
            within += u32::from(unsafe { self.cells.pivot(at + i) } < key);
        }
        bits::opaque(at + within as usize)
    }
}
