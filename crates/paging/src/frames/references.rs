//! References on frames, and the pinned state.

use super::{ANON, Frames, KIND, MAPPINGS, ONE_REFERENCE, PINNED, REFERENCES};
use crate::atomic::Ordering;
use crate::entry::PAGE_SIZE;
use crate::error::Error;

impl Frames {
    pub(crate) fn get(&self, phys: u64) -> Result<(), Error> {
        let before = self.word(phys).fetch_add(ONE_REFERENCE, Ordering::Relaxed);
        if before & REFERENCES == REFERENCES {
            self.word(phys).fetch_sub(ONE_REFERENCE, Ordering::Relaxed);
            return Err(Error::TooMany);
        }
        Ok(())
    }

    /// Removes a reference. Returns the frame's index if nothing refers to it any more.
    pub(crate) fn put(&self, phys: u64) -> Option<u32> {
        self.sub(phys, ONE_REFERENCE)
    }

    /// Adds a reference that makes the frame pinned. The frame is private memory that is exclusive
    /// to one entry, or already pinned. The caller holds the lock of the entry's table.
    pub(crate) fn pin(&self, phys: u64) -> Result<(), Error> {
        self.get(phys)?;
        self.word(phys).fetch_and(!ANON, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the pinned state of a frame without references. The caller holds the lock of a table
    /// that maps it.
    pub(crate) fn unpin(&self, phys: u64) {
        let word = self.word(phys).load(Ordering::Acquire);
        if word & (KIND | REFERENCES) == PINNED && word & MAPPINGS != 0 {
            self.word(phys).fetch_or(ANON, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the frame is pinned private memory with references. A fork gives the child
    /// a copy of it.
    #[inline]
    pub(crate) fn is_pinned(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & KIND == PINNED && word & REFERENCES != 0
    }

    /// Returns `true` if any frame of a huge page is [pinned](Self::is_pinned).
    pub(crate) fn any_pinned(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).any(|i| self.is_pinned(phys + i * PAGE_SIZE))
    }
}
