//! A view of the count words for loops.

use super::{ANON, COUNTS, Frames, ONE_REFERENCE};
use crate::atomic::{AtomicU32, Ordering};

impl Frames {
    /// Returns a view of the words of the largest range. Loops keep it in registers.
    #[inline]
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts {
            words: &self.words[..self.main as usize],
            base: self.base,
        }
    }
}

/// The count words of the frames in the largest range. For other frames its functions report that
/// the fast path does not apply.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    words: &'a [AtomicU32],
    base: u64,
}

impl<'a> Counts<'a> {
    /// Returns the index of a frame that has one mapping and no reference, so that removing the
    /// mapping frees it.
    #[inline(always)]
    pub(crate) fn last_mapping(&self, phys: u64) -> Option<u32> {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        // Acquire: what others wrote to the frame happens before its next use.
        let word = self.words.get(index)?.load(Ordering::Acquire);
        (word & COUNTS == 1).then_some(index as u32)
    }

    /// Turns the caller's reference into a mapping if it is the only one and nothing maps the
    /// frame. Returns `false` if nothing was done.
    #[inline(always)]
    pub(crate) fn map_owned(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let now = word.load(Ordering::Relaxed);
        let usual = now & COUNTS == ONE_REFERENCE;
        if usual {
            // As in `Frames::map_owned`.
            word.store(now - ONE_REFERENCE + 1, Ordering::Relaxed);
        }
        usual
    }

    /// Adds a second mapping to private memory that has one mapping and no reference. The caller
    /// holds the lock of the table that maps it. Returns `false` if nothing was done.
    #[inline(always)]
    pub(crate) fn map_second(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let usual = word.load(Ordering::Relaxed) == ANON | 1;
        if usual {
            // The head of `frames/mod.rs` says why a plain store suffices.
            word.store(ANON | 2, Ordering::Relaxed);
        }
        usual
    }

    /// Does the same for `N` adjacent frames, or for none of them.
    #[inline(always)]
    pub(crate) fn map_second_run<const N: usize>(&self, first: u64) -> bool {
        let index = (first.wrapping_sub(self.base) >> 12) as usize;
        let words = self.words.get(index..);
        let Some(words) = words.and_then(|words| words.first_chunk::<N>()) else {
            return false;
        };
        // No branch for each frame, because nearly always all words are equal.
        let differ = |word: &AtomicU32| word.load(Ordering::Relaxed) ^ (ANON | 1);
        let usual = words.iter().fold(0, |all, word| all | differ(word)) == 0;
        if usual {
            // A plain store, as above. The words cannot have changed, because the lock is held.
            for word in words {
                word.store(ANON | 2, Ordering::Relaxed);
            }
        }
        usual
    }
}
