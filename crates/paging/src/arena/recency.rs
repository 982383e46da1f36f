//! How long ago frames were freed, which tells whether their bytes are still in a cache.
//!
//! The clock counts frames that come and go. A frame that was freed a few frames ago has its bytes in the cache of whoever wrote to it last; one that was freed
//! many frames ago does not. It is noted for each piece of 2 MiB, by its frame that was freed last.

use core::ops::Range;

use super::bits::PIECE;
use super::room::{Given, Room};
use crate::error::Error;

/// So many frames later, 4 MiB, what was in a frame has left the caches of one processor.
const REMEMBERED: u32 = 1024;

pub(super) struct Recency {
    now: u32,
    freed: Room<u32>,
}

impl Recency {
    /// Nobody has used any frame yet.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn new(pieces: usize) -> Result<Self, Error> {
        Ok(Self::of(Room::on_heap(pieces, |_| 0)?))
    }

    /// The same in memory that is given.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn within(pieces: usize, memory: &mut Given) -> Result<Self, Error> {
        Ok(Self::of(Room::within(memory, pieces, |_| 0)?))
    }

    pub(super) const fn size_of(pieces: usize) -> usize {
        Room::<u32>::size_of(pieces)
    }

    fn of(freed: Room<u32>) -> Self {
        Recency {
            now: REMEMBERED + 1,
            freed,
        }
    }

    /// So many frames are given out.
    pub(super) fn give(&mut self, count: usize) {
        self.now = self.now.wrapping_add(count as u32);
    }

    /// These are freed, now.
    pub(super) fn free(&mut self, run: Range<usize>) {
        self.give(run.len());
        for freed in &mut self.freed[run.start / PIECE..run.end.div_ceil(PIECE)] {
            *freed = self.now;
        }
    }

    /// Whether a frame may have been freed a few frames ago.
    pub(super) fn is_recent(&self, frame: usize) -> bool {
        // After 2^32 frames the clock begins anew, and what lay untouched so long may seem recent once.
        self.now.wrapping_sub(self.freed[frame / PIECE]) <= REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_freed_is_recent_and_the_rest_is_not() {
        let mut recency = Recency::new(3).unwrap();
        assert!((0..3 * PIECE).all(|frame| !recency.is_recent(frame)));
        recency.free(10..20);
        assert!(recency.is_recent(10) && recency.is_recent(PIECE - 1));
        assert!(!recency.is_recent(PIECE));
        recency.give(REMEMBERED as usize);
        assert!(recency.is_recent(10));
        recency.give(1);
        assert!(!recency.is_recent(10));
        recency.free(PIECE - 1..2 * PIECE + 1);
        assert!((0..3 * PIECE).all(|frame| recency.is_recent(frame)));
    }
}
