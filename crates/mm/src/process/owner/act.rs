//! What is done to the tables.

use core::ops::Range;

use samara_paging::{Attrs, Change, Entry, Error, Preallocation, UnmapFilter};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::fault::put;
use crate::process::hollow::Gone;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// A change of the tables.
#[derive(Debug)]
pub(super) enum Act<'a, P: Platform> {
    /// Pages and guards go.
    Unmap(Range<u64>),
    /// Pages go, guards stay.
    Empty(Range<u64>),
    /// Guards come where no pages are.
    Mark(Range<u64>, u32),
    /// Guards go, pages stay, those in swap too.
    Unmark(Range<u64>, u32),
    /// Pages allow something else.
    Change(Range<u64>, Change),
    /// Pages are marked as not used, or not needed. Where that takes memory which there is not, they stay as they are.
    Advise(Range<u64>, Change),
    /// Pages go that are not needed, or are had elsewhere. The same.
    Drop(Range<u64>),
    /// Pages move: from, to, bytes, and tables for them.
    Move(u64, u64, u64, Option<Preallocation<'a, Machine<P>>>),
    /// What was in a range has been unmapped or moved; where the area below it ends, and the one above begins.
    Leave(Range<u64>, u64, u64),
}

impl<P: Platform> Mm<P> {
    /// # Errors
    /// `ENOMEM`, unless the range was prepared.
    pub(super) fn act(&self, act: Act<'_, P>) -> Result<(), Errno> {
        let done = match act {
            Act::Unmap(range) if self.swapped() => self.unmap_swapped(range),
            Act::Unmap(range) => self.unmap(&range),
            Act::Empty(range) => {
                let done = self.take(&range, UnmapFilter::Pages, true);
                done.and_then(|()| self.forget_swapped(range))
            }
            Act::Mark(range, marker) => self.mark(range, marker),
            // By what is there: a guard may stand alone in an area of terabytes.
            Act::Unmark(range, marker) => self.take(&range, UnmapFilter::Marker(marker), false),
            Act::Change(range, change) => self.change(range, change),
            Act::Advise(range, change) => {
                let _ = self.change(range.clone(), change);
                if change.clear.contains(Attrs::DIRTY) {
                    let _ = self.forget_swapped(range);
                }
                Ok(())
            }
            Act::Drop(range) => {
                let _ = self.take(&range, UnmapFilter::Reclaimable, false);
                Ok(())
            }
            Act::Move(from, to, len, mut spare) => self.relocate(from, to, len, spare.as_mut()),
            Act::Leave(range, below, above) => {
                self.forget_freed(&range, below, above);
                Ok(())
            }
        };
        done.map_err(|_| Errno::ENOMEM)
    }

    /// Pages and guards go. A call, as those below: each act does without the others' frames.
    #[inline(never)]
    fn unmap(&self, range: &Range<u64>) -> Result<(), Error> {
        (self.tables)
            .unmap_reporting_tables(range.clone(), self.machine.tlb())
            .map(|emptied| self.note_emptied(range, emptied))
    }

    /// Changes what pages allow.
    #[inline(never)]
    fn change(&self, range: Range<u64>, change: Change) -> Result<(), Error> {
        self.tables.protect(range, change, self.machine.tlb())
    }

    /// Moves pages.
    #[inline(never)]
    fn relocate(
        &self,
        from: u64,
        to: u64,
        len: u64,
        spare: Option<&mut Preallocation<'_, Machine<P>>>,
    ) -> Result<(), Error> {
        self.move_hollow(from, to, len);
        let piecewise = |at, there| self.note_moved(at, there);
        let tlb = self.machine.tlb();
        (self.tables).move_range_reporting(from, to, len, spare, tlb, piecewise)
    }

    /// Takes pages or guards out of a range that stays mapped. `tables`: tables of which all is in the range go, too.
    fn take(&self, range: &Range<u64>, take: UnmapFilter, tables: bool) -> Result<(), Error> {
        let mut gone = Gone::new();
        let tlb = self.machine.tlb();
        let done = (self.tables).unmap_with(range.clone(), take, tlb, |page, entry| {
            gone.add(page, entry)
        });
        self.note_gone(range, gone, tables);
        done
    }

    /// Pages, guards, and what is in swap.
    #[cold]
    fn unmap_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        let swap = self.machine.swap();
        let tlb = self.machine.tlb();
        let mut gone = Gone::new();
        (self.tables).unmap_with(range.clone(), UnmapFilter::All, tlb, |page, entry| {
            gone.add(page, entry);
            if let (Some(swap), Entry::Marker(marker)) = (&swap, entry) {
                put(swap, marker);
            }
        })?;
        self.note_emptied(&range, self.emptied(&range, gone));
        Ok(())
    }

    /// What is in swap of a range is given up.
    fn forget_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        if self.swapped() {
            self.drop_swapped(range)
        } else {
            Ok(())
        }
    }

    /// Page by page. When memory runs out, some guards are there and others not.
    #[inline(never)]
    fn mark(&self, range: Range<u64>, marker: u32) -> Result<(), Error> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let mut page = range.start;
        while page < range.end {
            match tables.set_marker(page, Some(marker), tlb) {
                Ok(()) => {}
                // A page that was faulted in meanwhile.
                Err(Error::Exists) => {
                    tables.unmap(page..page + PAGE_SIZE, tlb)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            page += PAGE_SIZE;
        }
        Ok(())
    }
}
