//! The number of slots of a node, and the offsets of its parts.

use core::marker::PhantomData;

use crate::base::shape::{MOST_SLOTS, NODE_BYTES};
use crate::base::{Key, Shape};
use crate::node::{Kind, WORD};

/// The layout of nodes for keys `K` and slot limit `S`.
pub(crate) struct Geometry<K, S>(PhantomData<fn() -> (K, S)>);

const fn align_to_word(n: usize) -> usize {
    n.next_multiple_of(WORD)
}

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

impl<K: Key, S: Shape> Geometry<K, S> {
    const KEY: usize = size_of::<K>();

    /// Returns the most slots that fit, with one pivot fewer, the first word, and `gap_bytes` a
    /// slot.
    const fn fit(gap_bytes: usize) -> usize {
        let mut n = 1;
        loop {
            let next = n + 1;
            let bytes =
                align_to_word(WORD + (next - 1) * Self::KEY) + next * WORD + next * gap_bytes;
            // `end` has five bits.
            if bytes > NODE_BYTES || next > MOST_SLOTS {
                return n;
            }
            n = next;
        }
    }

    /// The slots of leaf and range nodes.
    pub(crate) const SLOTS: usize = min(Self::fit(0), S::LIMIT);
    /// The slots of gap nodes.
    pub(crate) const GAP_SLOTS: usize = min(Self::fit(Self::KEY), S::LIMIT);

    pub(super) const PIVOT_AT: usize = WORD;
    pub(super) const SLOT_AT: usize = align_to_word(Self::PIVOT_AT + (Self::SLOTS - 1) * Self::KEY);
    pub(super) const GAP_SLOT_AT: usize =
        align_to_word(Self::PIVOT_AT + (Self::GAP_SLOTS - 1) * Self::KEY);
    /// At the very end: except for the first few, gaps have a cache line of their own, so that a
    /// writer that changes a gap does not invalidate what readers read.
    pub(super) const GAP_AT: usize = NODE_BYTES - Self::GAP_SLOTS * Self::KEY;

    /// Returns the number of slots in a node of a kind.
    #[inline(always)]
    pub(crate) const fn slots(kind: Kind) -> usize {
        match kind {
            Kind::Leaf | Kind::Range => Self::SLOTS,
            Kind::Gap => Self::GAP_SLOTS,
        }
    }

    /// Returns the fewest used slots in a node of a kind, except the root, the last node of each
    /// level, and the first leaf. Three eighths full: low enough that neither half of a split, nor
    /// of a rebalanced pair, is near it.
    #[inline(always)]
    pub(crate) const fn least(kind: Kind) -> usize {
        let n = Self::slots(kind) * 3 / 8;
        if n < 2 { 2 } else { n }
    }
}
