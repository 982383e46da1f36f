//! The mapping counts of frames.

use super::{ANON, COUNTS, Frames, KIND, MAPPINGS, ONE_REFERENCE, PINNED, TABLE};
use crate::atomic::Ordering;
use crate::deferred_free::DeferredFree;
use crate::entry::PAGE_SIZE;
use crate::error::Error;

impl Frames {
    /// Adds a mapping. The caller has a reference, or holds the lock of a table that maps the
    /// frame.
    ///
    /// The limit is checked with a margin, so that all processors together cannot cross it at once.
    #[inline]
    pub(crate) fn map(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == 1 {
            // One mapping, whose table's lock the caller holds, and no reference: the head of
            // `frames/mod.rs` says why a plain store suffices. A second mapping ends the pinned
            // state.
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

    /// Turns the caller's reference into a mapping.
    #[inline]
    pub(crate) fn map_owned(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == ONE_REFERENCE {
            // The one reference is the caller's and nothing maps the frame, so that no other thread
            // can change the word.
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

    /// Removes a mapping. Returns the frame's index if nothing refers to it any more. The caller
    /// holds the lock of the table from which it removed the entry.
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
        // Release: what this user wrote to the frame happens before its reuse by the last user.
        // Acquire: the last user comes after all others.
        let before = self.at(index).fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before & COUNTS >= count && before & KIND != TABLE);
        ((before - count) & COUNTS == 0).then_some(index)
    }

    /// Adds a mapping to each frame of a leaf, or to none.
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

    /// Removes the mappings of a leaf and adds the frames that become unreferenced to `dead`. The
    /// caller holds the lock of the leaf's table.
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
