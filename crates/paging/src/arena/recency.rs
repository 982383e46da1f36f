//! The time since frames were freed, which tells whether their bytes are still cached.
//!
//! The clock counts allocated and freed frames. A frame that was freed a few ticks ago has its
//! bytes in the cache of the processor that wrote to it last. One that was freed many ticks ago
//! does not. Each pageblock records the time of its last free.

use core::ops::Range;

use super::fixed_array::{FixedArray, GivenMemory};
use super::free_bitmap::PAGEBLOCK;
use crate::error::Error;

/// The number of frames, 4 MiB, after which a frame's bytes have left the caches of one processor.
const REMEMBERED: u32 = 1024;

pub(super) struct Recency {
    now: u32,
    freed: FixedArray<u32>,
}

impl Recency {
    /// Creates the record for memory in which no frame has been used yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(super) fn new(pageblocks: usize) -> Result<Self, Error> {
        Ok(Self::of(FixedArray::on_heap(pageblocks, |_| 0)?))
    }

    /// Creates the same in given memory.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(super) fn within(pageblocks: usize, memory: &mut GivenMemory) -> Result<Self, Error> {
        Ok(Self::of(FixedArray::within(memory, pageblocks, |_| 0)?))
    }

    pub(super) const fn size_of(pageblocks: usize) -> usize {
        FixedArray::<u32>::size_of(pageblocks)
    }

    fn of(freed: FixedArray<u32>) -> Self {
        Recency {
            now: REMEMBERED + 1,
            freed,
        }
    }

    /// Advances the clock by `count` allocated frames.
    pub(super) fn give(&mut self, count: usize) {
        self.now = self.now.wrapping_add(count as u32);
    }

    /// Records that a run of frames is freed now.
    pub(super) fn free(&mut self, run: Range<usize>) {
        self.give(run.len());
        for freed in &mut self.freed[run.start / PAGEBLOCK..run.end.div_ceil(PAGEBLOCK)] {
            *freed = self.now;
        }
    }

    /// Returns `true` if the frame may have been freed recently.
    pub(super) fn is_recent(&self, frame: usize) -> bool {
        // The clock wraps after 2^32 frames. A pageblock untouched for that long may seem recent
        // once.
        self.now.wrapping_sub(self.freed[frame / PAGEBLOCK]) <= REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_freed_is_recent_and_the_rest_is_not() {
        let mut recency = Recency::new(3).unwrap();
        assert!((0..3 * PAGEBLOCK).all(|frame| !recency.is_recent(frame)));
        recency.free(10..20);
        assert!(recency.is_recent(10) && recency.is_recent(PAGEBLOCK - 1));
        assert!(!recency.is_recent(PAGEBLOCK));
        recency.give(REMEMBERED as usize);
        assert!(recency.is_recent(10));
        recency.give(1);
        assert!(!recency.is_recent(10));
        recency.free(PAGEBLOCK - 1..2 * PAGEBLOCK + 1);
        assert!((0..3 * PAGEBLOCK).all(|frame| recency.is_recent(frame)));
    }
}
