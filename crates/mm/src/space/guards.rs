//! Markers: pages that fault whatever their area allows. Guards (`MADV_GUARD_INSTALL`), and what a userfaultfd has poisoned (`UFFDIO_POISON`).
//!
//! They live in the page tables, not in areas: they neither split areas nor keep them from joining, move with mremap and go with the mapping. Guards
//! survive `MADV_DONTNEED`, and poison does not. Kept here as ranges, because locking and populating fail at them.
//!
//! Huge pages of private mappings, which also lie beside the areas, are kept here, too. As long as there may be some, or poison, an address that no program
//! has is marked: whoever finds no guard at all need not ask for them.

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::space::huge::pool::HugePool;
use crate::space::huge::slots::Slots;
use crate::space::ranges::Ranges;
use alloc::boxed::Box;
use core::ops::Range;

/// What stands in place of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Accesses find nothing mapped.
    Guard,
    /// Accesses find memory that has failed.
    Poison,
}

impl Marker {
    /// What filling in fails with here.
    pub(crate) fn refusal(self) -> Errno {
        match self {
            Marker::Guard => Errno::EFAULT,
            Marker::Poison => Errno::EHWPOISON,
        }
    }
}

/// Ranges of marked pages. What changes them returns `ENOMEM` when an allocation fails; then nothing has changed.
#[derive(Debug)]
pub(crate) struct Guards {
    /// Those with guards.
    marked: Ranges,
    /// Poisoned ones, if there ever were any; none of them has a guard.
    poisoned: Option<Box<Ranges>>,
    /// Huge pages, if any were ever mapped.
    pub(crate) huge: Option<Box<Slots>>,
    /// The marks as they are to be when areas that are about to go have gone.
    left: Option<Box<Guards>>,
}

/// Marked while there may be huge pages or poison: above all areas.
const BEYOND: u64 = u64::MAX - 1;

impl Guards {
    pub(crate) fn new() -> Self {
        Guards {
            marked: Ranges::new(),
            poisoned: None,
            huge: None,
            left: None,
        }
    }

    /// The slots of huge pages, for a change.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn huge_mut(&mut self, pool: HugePool) -> Result<&mut Slots, Errno> {
        if self.huge.is_none() {
            let slots = try_box(Slots::new(pool))?;
            self.marked.insert(BEYOND, BEYOND + 1)?;
            self.huge = Some(slots);
        }
        self.huge.as_deref_mut().ok_or(Errno::ENOMEM)
    }

    /// No page is marked, and none is huge. O(1).
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.marked.is_empty()
    }

    /// The first marked address in `[start, end)`, and with what.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<(u64, Marker)> {
        let guard = self.marked.first_in(start, end).map(|range| range.start);
        // Poison matters below the guard.
        let poison = self.first_poison(start, guard.unwrap_or(end));
        match poison {
            Some(range) => Some((range.start, Marker::Poison)),
            None => Some((guard?, Marker::Guard)),
        }
    }

    /// The first poisoned range in `[start, end)`.
    pub(crate) fn first_poison(&self, start: u64, end: u64) -> Option<Range<u64>> {
        self.poisoned.as_ref()?.first_in(start, end)
    }

    /// Marks `[start, end)` with guards.
    pub(crate) fn install(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.first_poison(start, end).is_none() {
            return self.marked.insert(start, end);
        }
        self.at_once(|marks| {
            marks.marked.insert(start, end)?;
            marks.clear_poison(start, end)
        })
    }

    /// Marks `[start, end)` as poisoned.
    pub(crate) fn poison(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.poisoned.is_none() {
            let poisoned = try_box(Ranges::new())?;
            self.marked.insert(BEYOND, BEYOND + 1)?;
            self.poisoned = Some(poisoned);
        }
        let guarded = self.marked.first_in(start, end).is_some();
        match &mut self.poisoned {
            Some(poisoned) if !guarded => poisoned.insert(start, end),
            _ => self.at_once(|marks| {
                marks.marked.remove(start, end)?;
                let poisoned = marks.poisoned.as_mut().ok_or(Errno::ENOMEM)?;
                poisoned.insert(start, end)
            }),
        }
    }

    /// Removes the marks in `[start, end)`.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.first_poison(start, end).is_none() {
            return self.marked.remove(start, end);
        }
        if self.marked.first_in(start, end).is_none() {
            return self.clear_poison(start, end);
        }
        self.at_once(|marks| {
            marks.marked.remove(start, end)?;
            marks.clear_poison(start, end)
        })
    }

    /// Removes the guards in `[start, end)`.
    pub(crate) fn remove_guards(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.marked.remove(start, end)
    }

    /// Removes the poison in `[start, end)`.
    pub(crate) fn clear_poison(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        match &mut self.poisoned {
            Some(poisoned) => poisoned.remove(start, end),
            None => Ok(()),
        }
    }

    /// Moves the marks of `len` bytes from `from` to `to`, where there are none. O(n) in all marks.
    pub(crate) fn shift(&mut self, from: u64, len: u64, to: u64) -> Result<(), Errno> {
        self.at_once(|marks| {
            shift(&mut marks.marked, from, len, to)?;
            match &mut marks.poisoned {
                Some(poisoned) => shift(poisoned, from, len, to),
                None => Ok(()),
            }
        })
    }

    /// Changes marks in several steps: in all of them, or in none if there is no memory. O(n) in all marks.
    fn at_once(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut marks = self.marks()?;
        change(&mut marks)?;
        self.become_marks(marks);
        Ok(())
    }

    /// Sets aside what is left without the marks in `[start, end)`, if there are some. O(n) then.
    pub(crate) fn prepare_removal(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.left = None;
        if self.first_in(start, end).is_some() {
            let mut left = self.marks()?;
            left.marked.remove(start, end)?;
            left.clear_poison(start, end)?;
            self.left = Some(try_box(left)?);
        }
        Ok(())
    }

    /// Removes the marks whose removal was [expected](Self::prepare_removal) last.
    pub(crate) fn remove_prepared(&mut self) {
        if let Some(left) = self.left.take() {
            self.become_marks(*left);
        }
    }

    /// Forgets the huge pages in `[start, end)`.
    pub(crate) fn clear_huge(&mut self, start: u64, end: u64) {
        if let Some(slots) = &mut self.huge {
            slots.clear(&(start..end));
        }
    }

    /// These marks take the place of all; huge pages stay.
    fn become_marks(&mut self, marks: Guards) {
        self.marked = marks.marked;
        self.poisoned = marks.poisoned;
    }

    /// Marks in `[start, end)` what is marked there in `other`.
    pub(crate) fn copy(&mut self, other: &Guards, start: u64, end: u64) -> Result<(), Errno> {
        let mut next = start;
        while let Some(range) = other.marked.first_in(next, end) {
            self.install(range.start, range.end)?;
            next = range.end;
        }
        next = start;
        while let Some(range) = other.first_poison(next, end) {
            self.poison(range.start, range.end)?;
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
        Ok(Guards {
            marked: self.marked.try_clone()?,
            poisoned: match &self.poisoned {
                Some(poisoned) => Some(try_box(poisoned.try_clone()?)?),
                None => None,
            },
            huge: None,
            left: None,
        })
    }
}

/// Moves what of a set lies in `len` bytes from `from` on to `to`, where nothing of it lies.
fn shift(ranges: &mut Ranges, from: u64, len: u64, to: u64) -> Result<(), Errno> {
    let mut next = from;
    while let Some(range) = ranges.first_in(next, from + len) {
        ranges.insert(range.start - from + to, range.end - from + to)?;
        next = range.end;
    }
    ranges.remove(from, from + len)
}
