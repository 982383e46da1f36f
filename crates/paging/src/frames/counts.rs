//! The words of all frames, at hand in a loop.

use super::{ANON, COUNTS, Frames, ONE_REFERENCE};
use crate::atomic::{AtomicU32, Ordering};

impl Frames {
    /// Nearly all words, for a loop that must not look for them anew each time.
    #[inline]
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts {
            words: &self.words[..self.main as usize],
            base: self.base,
        }
    }
}

/// The words of the frames in the largest range, at hand in a loop. Of others it says that they are unusual, which they may be.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    words: &'a [AtomicU32],
    base: u64,
}

impl<'a> Counts<'a> {
    /// The number of a frame, if it has this one mapping and no reference, so that it is dead with the mapping.
    #[inline(always)]
    pub(crate) fn last_mapping(&self, phys: u64) -> Option<u32> {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        // Acquire: what others wrote to the frame comes before what is done with it next.
        let word = self.words.get(index)?.load(Ordering::Acquire);
        (word & COUNTS == 1).then_some(index as u32)
    }

    /// The caller's reference, the only one on a frame that nothing maps, becomes a mapping. False: nothing was done.
    #[inline(always)]
    pub(crate) fn map_owned(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let now = word.load(Ordering::Relaxed);
        let usual = now & COUNTS == ONE_REFERENCE;
        if usual {
            // As `Frames::map_owned`.
            word.store(now - ONE_REFERENCE + 1, Ordering::Relaxed);
        }
        usual
    }

    /// A second mapping of private memory that has one mapping, in a table whose lock the caller holds, and no reference. False: nothing was done.
    #[inline(always)]
    pub(crate) fn map_second(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let usual = word.load(Ordering::Relaxed) == ANON | 1;
        if usual {
            // See the head of `frames/mod.rs`.
            word.store(ANON | 2, Ordering::Relaxed);
        }
        usual
    }

    /// The same of all of `N` frames, each behind the one before, or of none.
    #[inline(always)]
    pub(crate) fn map_second_run<const N: usize>(&self, first: u64) -> bool {
        let index = (first.wrapping_sub(self.base) >> 12) as usize;
        let words = self.words.get(index..);
        let Some(words) = words.and_then(|words| words.first_chunk::<N>()) else {
            return false;
        };
        // Without a branch for each: nearly always they are all alike.
        let differ = |word: &AtomicU32| word.load(Ordering::Relaxed) ^ (ANON | 1);
        let usual = words.iter().fold(0, |all, word| all | differ(word)) == 0;
        if usual {
            // As above. What was found holds until here, since the lock does.
            for word in words {
                word.store(ANON | 2, Ordering::Relaxed);
            }
        }
        usual
    }
}
