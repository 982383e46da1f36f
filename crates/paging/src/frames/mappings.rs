//! Mappings of a frame: one more, one less.

use super::{ANON, COUNTS, Frames, KIND, MAPPINGS, ONE_REFERENCE, PINNED, TABLE};
use crate::atomic::Ordering;
use crate::deferred_free::DeferredFree;
use crate::entry::PAGE_SIZE;
use crate::error::Error;

impl Frames {
    /// One more mapping. The caller has a reference, or holds the lock of a table that maps the frame.
    ///
    /// The limit is checked before it is crossed by so many that all processors together cannot cross it at once.
    #[inline]
    pub(crate) fn map(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == 1 {
            // One mapping, whose table's lock the caller holds, and no reference: see the head of `frames/mod.rs`. What was pinned is so no more.
            let mark = if now & KIND == PINNED { ANON } else { 0 };
            word.store((now + 1) | mark, Ordering::Relaxed);
            return Ok(());
        }
        let before = word.fetch_add(1, Ordering::Relaxed);
        if before & MAPPINGS >= MAPPINGS - (1 << 12) {
            word.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooMany);
        }
        Ok(())
    }

    /// Undoes [`map`](Self::map).
    pub(crate) fn undo_map(&self, phys: u64) {
        self.word(phys).fetch_sub(1, Ordering::AcqRel);
    }

    /// The caller's reference becomes a mapping.
    #[inline]
    pub(crate) fn map_owned(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == ONE_REFERENCE {
            // The one reference is the caller's, and nothing maps it: nobody else can know of it.
            word.store(now - ONE_REFERENCE + 1, Ordering::Relaxed);
            return Ok(());
        }
        if now & MAPPINGS >= MAPPINGS - (1 << 12) {
            return Err(Error::TooMany);
        }
        word.fetch_sub(ONE_REFERENCE - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Undoes [`map_owned`](Self::map_owned).
    pub(crate) fn undo_map_owned(&self, phys: u64) {
        self.word(phys)
            .fetch_add(ONE_REFERENCE - 1, Ordering::Relaxed);
    }

    /// A mapping less; the frame, if it is dead now. The caller holds the lock of the table from which the entry has gone.
    #[inline]
    pub(crate) fn unmap(&self, phys: u64) -> Option<u32> {
        let index = self.index(phys);
        let word = self.at(index);
        if word.load(Ordering::Acquire) & COUNTS == 1 {
            return Some(index);
        }
        self.sub(phys, 1)
    }

    #[inline]
    pub(super) fn sub(&self, phys: u64, count: u32) -> Option<u32> {
        let index = self.index(phys);
        // Release: what this user wrote to the frame comes before whatever the last one does with it. Acquire: so that the last one is after
        // all others.
        let before = self.at(index).fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before & COUNTS >= count && before & KIND != TABLE);
        ((before - count) & COUNTS == 0).then_some(index)
    }

    /// One more mapping of each frame of a leaf, or of none.
    #[inline]
    pub(crate) fn map_leaf(&self, phys: u64, order: u32) -> Result<(), Error> {
        for i in 0..1u64 << order {
            if let Err(error) = self.map(phys + i * PAGE_SIZE) {
                for i in 0..i {
                    self.undo_map(phys + i * PAGE_SIZE);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The mappings of a leaf have gone: notes which frames are dead now. The caller holds the lock of the leaf's table.
    #[inline]
    pub(crate) fn unmap_leaf(&self, phys: u64, order: u32, dead: &mut DeferredFree) {
        if order > 0 && self.all_sole(phys, order) {
            dead.push(self, self.index(phys), 1 << order);
            return;
        }
        for i in 0..1u64 << order {
            if let Some(index) = self.unmap(phys + i * PAGE_SIZE) {
                dead.push(self, index, 1);
            }
        }
    }
}
