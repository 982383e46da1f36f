//! Finding the slot that covers a key: without a branch on what the node holds.

use core::marker::PhantomData;

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node, bits};

/// The distance between the pivots that the first stage of a search compares.
struct Stride<K, S>(PhantomData<fn() -> (K, S)>);

impl<K: Key, S: Shape> Stride<K, S> {
    const NODE: usize = Self::of(Geometry::<K, S>::SLOTS);
    const GAP_NODE: usize = Self::of(Geometry::<K, S>::GAP_SLOTS);

    /// The stride that takes the fewest comparisons in a node of `slots`; of two that take as many, one that divides
    /// it, then the larger.
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
    /// The slot whose range contains `key`, which is within the node's bounds.
    #[inline(always)]
    pub(crate) fn search(self, key: K) -> usize {
        match self.kind {
            Kind::Leaf | Kind::Range => self.count_below::<false>(key),
            Kind::Gap => self.count_below::<true>(key),
        }
    }

    /// Returns the number of pivots below `key`, in two stages: every `STRIDE`th pivot selects the
    /// group of slots, and the pivots within that group select the slot. Trip counts are constants
    /// and no branch depends on data, because a mispredicted exit would cost more than the
    /// comparisons. It takes six comparisons for fifteen pivots, and five for nine.
    #[inline(always)]
    fn count_below<const GAP: bool>(self, key: K) -> usize {
        let (slots, stride) = if GAP {
            (Geometry::<K, S>::GAP_SLOTS, Stride::<K, S>::GAP_NODE)
        } else {
            (Geometry::<K, S>::SLOTS, Stride::<K, S>::NODE)
        };
        // In 32 bits: with a machine word the compiler multiplies each comparison's result by the slot's width and
        // adds them up one by one, which takes twice the instructions.
        let mut groups = 0u32;
        let mut i = stride - 1;
        while i < slots - 1 {
            // SAFETY: as in `pivot`.
            groups += u32::from(unsafe { self.cells.pivot(i) } < key);
            i += stride;
        }
        let mut at = groups as usize * stride;
        if !slots.is_multiple_of(stride) {
            // The last group is short. Where it starts earlier, pivots that are known to be below `key` are counted.
            at = at.min(slots - stride);
        }
        // Where a sum goes into an address, each of its terms is moved there by an instruction of its own, if the compiler
        // can see them. As a sum, a comparison takes two instructions rather than four.
        let at = bits::opaque(at);
        let mut within = 0u32;
        for i in 0..stride - 1 {
            // SAFETY: as in `pivot`: `at` is at most `slots - stride`.
            within += u32::from(unsafe { self.cells.pivot(at + i) } < key);
        }
        bits::opaque(at + within as usize)
    }
}
