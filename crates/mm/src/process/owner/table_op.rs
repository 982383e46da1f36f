//! What is done to the tables.

use core::ops::Range;

use samara_paging::{Attrs, Change, Entry, Error, Preallocation, UnmapFilter};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::fault::free_slot;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::retained_tables::Discarded;

/// A change of the tables.
#[derive(Debug)]
pub(super) enum TableOp<'a, P: Platform> {
    /// Pages and guards go.
    Unmap(Range<u64>),
    /// Pages go, guards stay.
    Discard(Range<u64>),
    /// Guards come where no pages are.
    InstallGuards(Range<u64>, u32),
    /// Guards go, pages stay, those in swap too.
    RemoveGuards(Range<u64>, u32),
    /// Pages allow something else.
    Protect(Range<u64>, Change),
    /// Pages are marked as not used, or not needed. Where that takes memory which there is not, they stay as they are.
    Advise(Range<u64>, Change),
    /// Pages go that are not needed, or are had elsewhere. The same.
    DropIdle(Range<u64>),
    /// Pages move: from, to, bytes, and tables for them.
    Move(u64, u64, u64, Option<Preallocation<'a, Machine<P>>>),
    /// What was in a range has been unmapped or moved; where the area below it ends, and the one above begins.
    FreeTables(Range<u64>, u64, u64),
}

impl<P: Platform> Mm<P> {
    /// # Errors
    /// `ENOMEM`, unless the range was prepared.
    pub(super) fn apply(&self, op: TableOp<'_, P>) -> Result<(), Errno> {
        let done = match op {
            TableOp::Unmap(range) if self.swapped() => self.unmap_swapped(range),
            TableOp::Unmap(range) => self.unmap(&range),
            TableOp::Discard(range) => {
                let done = self.take(&range, UnmapFilter::Pages, true);
                done.and_then(|()| self.forget_swapped(range))
            }
            TableOp::InstallGuards(range, marker) => self.install_guards(range, marker),
            // By what is there: a guard may stand alone in an area of terabytes.
            TableOp::RemoveGuards(range, marker) => {
                self.take(&range, UnmapFilter::Marker(marker), false)
            }
            TableOp::Protect(range, change) => self.protect(range, change),
            TableOp::Advise(range, change) => {
                let _ = self.protect(range.clone(), change);
                if change.clear.contains(Attrs::DIRTY) {
                    let _ = self.forget_swapped(range);
                }
                Ok(())
            }
            TableOp::DropIdle(range) => {
                let _ = self.take(&range, UnmapFilter::Reclaimable, false);
                Ok(())
            }
            TableOp::Move(from, to, len, mut spare) => self.relocate(from, to, len, spare.as_mut()),
            TableOp::FreeTables(range, below, above) => {
                self.clear_unneeded(&range, below, above);
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
            .map(|emptied| self.note_unmapped(range, emptied))
    }

    /// Changes what pages allow.
    #[inline(never)]
    fn protect(&self, range: Range<u64>, change: Change) -> Result<(), Error> {
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
        self.move_retained(from, to, len);
        let piecewise = |at, there| self.note_moved(at, there);
        let tlb = self.machine.tlb();
        (self.tables).move_range_reporting(from, to, len, spare, tlb, piecewise)
    }

    /// Takes pages or guards out of a range that stays mapped. `tables`: tables of which all is in the range go, too.
    fn take(&self, range: &Range<u64>, take: UnmapFilter, tables: bool) -> Result<(), Error> {
        let mut discarded = Discarded::new();
        let tlb = self.machine.tlb();
        let done = (self.tables).unmap_with(range.clone(), take, tlb, |page, entry| {
            discarded.add(page, entry)
        });
        self.note_discarded(range, discarded, tables);
        done
    }

    /// Pages, guards, and what is in swap.
    #[cold]
    fn unmap_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        let swap = self.machine.swap();
        let tlb = self.machine.tlb();
        let mut discarded = Discarded::new();
        (self.tables).unmap_with(range.clone(), UnmapFilter::All, tlb, |page, entry| {
            discarded.add(page, entry);
            if let (Some(swap), Entry::Marker(marker)) = (&swap, entry) {
                free_slot(swap, marker);
            }
        })?;
        self.note_unmapped(&range, self.emptied(&range, discarded));
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
    fn install_guards(&self, range: Range<u64>, marker: u32) -> Result<(), Error> {
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
