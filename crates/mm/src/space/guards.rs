//! Guard markers (`MADV_GUARD_INSTALL`): pages that fault whatever their area allows.
//!
//! They live in the page tables, not in areas: they neither split areas nor keep them from joining, survive
//! `MADV_DONTNEED`, move with mremap and go with the mapping. Kept here as ranges, because locking and populating fail at them.
//!
//! Huge pages of private mappings, which also lie beside the areas, are kept here, too. As long as there may be some, an address that no program has
//! is marked: whoever finds no mark at all need not ask for them.

use maple_tree::{CloneError, MapleTree};

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::space::huge::pool::HugePool;
use crate::space::huge::slots::Slots;
use alloc::boxed::Box;

/// A value for the tree, which holds something one pointer wide.
static MARK: u8 = 0;

/// Ranges of marked pages.
#[derive(Debug)]
pub(crate) struct Guards {
    marked: MapleTree<u64, &'static u8>,
    /// Huge pages, if any were ever mapped.
    pub(crate) huge: Option<Box<Slots>>,
}

/// Marked while there may be huge pages: above all areas.
const BEYOND: u64 = u64::MAX - 1;

impl Guards {
    pub(crate) fn new() -> Self {
        Guards {
            marked: MapleTree::new(),
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
        if self.marked.is_empty() || start >= end {
            return None;
        }
        let (range, _) = self.marked.find(start..end)?;
        Some((*range.start()).max(start))
    }

    /// Marks `[start, end)`.
    pub(crate) fn install(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.marked
            .store_range_splitting(start..end, &MARK, |_, mark| Some(mark))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Removes the marks in `[start, end)`.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.first_in(start, end).is_none() {
            return Ok(());
        }
        self.marked
            .erase_range_splitting(start..end, |_, mark| Some(mark))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Moves the marks of `len` bytes from `from` to `to`, where there are none.
    pub(crate) fn shift(&mut self, from: u64, len: u64, to: u64) -> Result<(), Errno> {
        let mut next = from;
        while let Some(first) = self.first_in(next, from + len) {
            let last = match self.marked.get_range(first) {
                Some((range, _)) => (*range.end()).min(from + len - 1),
                None => return Ok(()),
            };
            self.install(first - from + to, last - from + to + 1)?;
            next = last + 1;
        }
        self.remove(from, from + len)
    }

    /// Marks in `[start, end)` what is marked there in `other`.
    pub(crate) fn copy(&mut self, other: &Guards, start: u64, end: u64) -> Result<(), Errno> {
        let mut next = start;
        while let Some(first) = other.first_in(next, end) {
            let last = match other.marked.get_range(first) {
                Some((range, _)) => (*range.end()).min(end - 1),
                None => return Ok(()),
            };
            self.install(first, last + 1)?;
            next = last + 1;
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
        let marked = self
            .marked
            .try_clone_with(|_, mark| Ok::<_, Errno>(Some(mark)))
            .map_err(|error| match error {
                CloneError::Alloc => Errno::ENOMEM,
                CloneError::Entry(errno) => errno,
            })?;
        Ok(Guards { marked, huge: None })
    }
}
