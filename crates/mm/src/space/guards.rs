//! Markers: pages at which accesses fail, whatever their VMA allows. Guards (`MADV_GUARD_INSTALL`),
//! and poison of a userfaultfd (`UFFDIO_POISON`).
//!
//! In Linux they are in the page tables and not in VMAs: they neither split VMAs nor keep them from
//! merging, move with mremap and disappear with the mapping. Guards survive `MADV_DONTNEED`, poison
//! does not. They are kept here as ranges, because locking and populating fail at them.
//!
//! Huge pages of private mappings, which are independent of VMAs as well, are kept here, too. While
//! there may be huge pages or poison, an address that no program has is marked. So a caller that
//! finds no guard at all need not check for them.

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::huge_pool::HugePool;
use crate::huge_pool::slots::Slots;
use crate::space::ranges::Ranges;
use alloc::boxed::Box;
use core::ops::Range;

/// The marker in place of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Accesses fail as if nothing were mapped.
    Guard,
    /// Accesses fail as in failed memory.
    Poison,
}

impl Marker {
    /// Returns the error with which populating fails here.
    pub(crate) fn refusal(self) -> Errno {
        match self {
            Marker::Guard => Errno::EFAULT,
            Marker::Poison => Errno::EHWPOISON,
        }
    }
}

/// Ranges of marked pages. Functions that change them return `ENOMEM` when an allocation fails;
/// then nothing has changed.
#[derive(Debug)]
pub(crate) struct Guards {
    /// Pages with guards.
    marked: Ranges,
    /// Poisoned pages, if there ever were any. None of them has a guard.
    poisoned: Option<Box<Ranges>>,
    /// Huge pages, if any were ever mapped.
    pub(crate) huge: Option<Box<Slots>>,
    /// The markers that remain after a removal that is being prepared.
    left: Option<Box<Guards>>,
}

/// The address that is marked while there may be huge pages or poison: above all VMAs.
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

    /// Returns the slots of huge pages, for a change.
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

    /// Returns `true` if no page is marked and none is huge. O(1).
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.marked.is_empty()
    }

    /// Returns the first marked address in `[start, end)` and its marker.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<(u64, Marker)> {
        let guard = self.marked.first_in(start, end).map(|range| range.start);
        // Only poison below the guard matters.
        let poison = self.first_poison(start, guard.unwrap_or(end));
        match poison {
            Some(range) => Some((range.start, Marker::Poison)),
            None => Some((guard?, Marker::Guard)),
        }
    }

    /// Returns the first poisoned range in `[start, end)`.
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

    /// Removes the markers in `[start, end)`.
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

    /// Moves the markers of `len` bytes from `from` to `to`, where there are none. O(n) in all
    /// markers.
    pub(crate) fn shift(&mut self, from: u64, len: u64, to: u64) -> Result<(), Errno> {
        self.at_once(|marks| {
            shift(&mut marks.marked, from, len, to)?;
            match &mut marks.poisoned {
                Some(poisoned) => shift(poisoned, from, len, to),
                None => Ok(()),
            }
        })
    }

    /// Changes markers in several steps: all of them, or none if there is no memory. O(n) in all
    /// markers.
    fn at_once(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut marks = self.marks()?;
        change(&mut marks)?;
        self.become_marks(marks);
        Ok(())
    }

    /// Prepares the removal of the markers in `[start, end)`, if there are some. O(n) then.
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

    /// Removes the markers whose removal was [prepared](Self::prepare_removal) last. Needs no
    /// memory.
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

    /// Replaces all markers by these. Huge pages stay.
    fn become_marks(&mut self, marks: Guards) {
        self.marked = marks.marked;
        self.poisoned = marks.poisoned;
    }

    /// Copies the markers in `[start, end)` from `other`.
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

    /// Returns a copy.
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

    /// Returns a copy of the markers, without huge pages.
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

/// Moves the part of a set in `len` bytes from `from` to `to`, where the set is empty.
fn shift(ranges: &mut Ranges, from: u64, len: u64, to: u64) -> Result<(), Errno> {
    let mut next = from;
    while let Some(range) = ranges.first_in(next, from + len) {
        ranges.insert(range.start - from + to, range.end - from + to)?;
        next = range.end;
    }
    ranges.remove(from, from + len)
}
