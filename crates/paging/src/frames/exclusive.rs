//! Exclusive use of a frame: whether anything else maps it or refers to it.

use super::{ANON, COUNTS, Frames, KIND, MAPPINGS, PINNED};
use crate::atomic::Ordering;
use crate::entry::PAGE_SIZE;

impl Frames {
    /// Returns `true` if the frame is [sole](Self::is_sole) or pinned. The caller holds the lock of
    /// a table that maps it.
    #[inline]
    pub(crate) fn is_exclusive(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & COUNTS == 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Returns `true` if the frame is private memory and [exclusive](Self::is_exclusive). The
    /// caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_exclusive_anon(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word == ANON | 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Returns `true` if one entry maps the frame and nothing else refers to it. The caller holds
    /// the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_sole(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Acquire) & COUNTS == 1
    }

    /// Returns `true` if every frame of a huge page is [exclusive](Self::is_exclusive).
    pub(crate) fn all_exclusive(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).all(|i| self.is_exclusive(phys + i * PAGE_SIZE))
    }

    /// Returns `true` if every frame of a huge page is [sole](Self::is_sole).
    #[inline]
    pub(crate) fn all_sole(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & COUNTS == 1)
    }

    /// Returns `true` if exactly one entry maps each frame of a page. Other references do not
    /// matter.
    #[inline]
    pub(crate) fn all_mapped_once(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & MAPPINGS == 1)
    }
}
