//! References on a frame, and those that make it pinned.

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

    /// A reference less; the frame, if it is dead now.
    pub(crate) fn put(&self, phys: u64) -> Option<u32> {
        self.sub(phys, ONE_REFERENCE)
    }

    /// A reference that makes the frame pinned. It is private memory, which one entry maps and nobody else has, or which is pinned already; the caller holds
    /// the lock of the entry's table.
    pub(crate) fn pin(&self, phys: u64) -> Result<(), Error> {
        self.get(phys)?;
        self.word(phys).fetch_and(!ANON, Ordering::Relaxed);
        Ok(())
    }

    /// A frame that was pinned and has no reference any more is as any other. The caller holds the lock of a table that maps it.
    pub(crate) fn unpin(&self, phys: u64) {
        let word = self.word(phys).load(Ordering::Acquire);
        if word & (KIND | REFERENCES) == PINNED && word & MAPPINGS != 0 {
            self.word(phys).fetch_or(ANON, Ordering::Relaxed);
        }
    }

    /// Whether there are references on pinned memory, of which a fork gives the child a copy.
    #[inline]
    pub(crate) fn is_pinned(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & KIND == PINNED && word & REFERENCES != 0
    }

    /// The same of any frame of a huge page.
    pub(crate) fn any_pinned(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).any(|i| self.is_pinned(phys + i * PAGE_SIZE))
    }
}
