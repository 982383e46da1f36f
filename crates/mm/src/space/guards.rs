//! Guard markers (`MADV_GUARD_INSTALL`): pages that fault whatever their area allows.
//!
//! They live in the page tables, not in areas: they neither split areas nor keep them from joining, survive
//! `MADV_DONTNEED`, move with mremap and go with the mapping. Kept here as ranges, because locking and populating fail at them.
//!
//! Huge pages of private mappings, which also lie beside the areas, are kept here, too. As long as there may be some, an address that no program has
//! is marked: whoever finds no mark at all need not ask for them.

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::space::huge::pool::HugePool;
use crate::space::huge::slots::Slots;
use crate::space::ranges::Ranges;
use alloc::boxed::Box;

/// Ranges of marked pages.
#[derive(Debug)]
pub(crate) struct Guards {
    marked: Ranges,
    /// Huge pages, if any were ever mapped.
    pub(crate) huge: Option<Box<Slots>>,
}

/// Marked while there may be huge pages: above all areas.
const BEYOND: u64 = u64::MAX - 1;

impl Guards {
    pub(crate) fn new() -> Self {
        Guards {
            marked: Ranges::new(),
            huge: None,
        }
    }

    /// The slots of huge pages, for a change.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn huge_mut(&mut self, pool: HugePool) -> Result<&mut Slots, Errno> {
        if self.huge.is_none() {
            let slots = try_box(Slots::new(pool))?;
            self.install(BEYOND, BEYOND + 1)?;
            self.huge = Some(slots);
        }
        self.huge.as_deref_mut().ok_or(Errno::ENOMEM)
    }

    /// No page is marked, and none is huge. O(1).
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.marked.is_empty()
    }

    /// The first marked address in `[start, end)`.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<u64> {
        Some(self.marked.first_in(start, end)?.start)
    }

    /// Marks `[start, end)`.
    pub(crate) fn install(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.marked.insert(start, end)
    }

    /// Removes the marks in `[start, end)`.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.marked.remove(start, end)
    }

    /// Moves the marks of `len` bytes from `from` to `to`, where there are none.
    pub(crate) fn shift(&mut self, from: u64, len: u64, to: u64) -> Result<(), Errno> {
        let mut next = from;
        while let Some(range) = self.marked.first_in(next, from + len) {
            self.install(range.start - from + to, range.end - from + to)?;
            next = range.end;
        }
        self.remove(from, from + len)
    }

    /// Marks in `[start, end)` what is marked there in `other`.
    pub(crate) fn copy(&mut self, other: &Guards, start: u64, end: u64) -> Result<(), Errno> {
        let mut next = start;
        while let Some(range) = other.marked.first_in(next, end) {
            self.install(range.start, range.end)?;
            next = range.end;
        }
        Ok(())
    }

    /// The same.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        let mut copy = self.marks()?;
        if let Some(slots) = &self.huge {
            copy.huge = Some(try_box(slots.try_clone()?)?);
        }
        Ok(copy)
    }

    /// The marks, without huge pages.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn marks(&self) -> Result<Self, Errno> {
        let marked = self.marked.try_clone()?;
        Ok(Guards { marked, huge: None })
    }
}
