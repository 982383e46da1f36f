//! Whether anybody else has a frame.

use super::{ANON, COUNTS, Frames, KIND, MAPPINGS, PINNED};
use crate::atomic::Ordering;
use crate::entry::PAGE_SIZE;

impl Frames {
    /// Whether one entry maps the frame and nothing else refers to it, or the frame is pinned. The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_exclusive(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & COUNTS == 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Whether the frame is private memory and [alone](Self::is_exclusive). The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_exclusive_anon(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word == ANON | 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Whether one entry maps the frame and nothing else refers to it. The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_sole(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Acquire) & COUNTS == 1
    }

    /// Whether all frames of a huge page are alone, as [`is_exclusive`](Self::is_exclusive) says of one.
    pub(crate) fn all_exclusive(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).all(|i| self.is_exclusive(phys + i * PAGE_SIZE))
    }

    /// Whether all frames of a huge page are single.
    #[inline]
    pub(crate) fn all_sole(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & COUNTS == 1)
    }

    /// Whether one entry maps each frame of a page, and no other; whoever else refers to it.
    #[inline]
    pub(crate) fn all_mapped_once(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & MAPPINGS == 1)
    }
}
