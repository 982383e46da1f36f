//! Changes of the page tables, as a call makes them.

use core::ops::Range;

use samara_paging::{Attrs, Change, Entry, Error, Preallocation, UnmapFilter};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::fault::free_slot;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::retained_tables::Discarded;

/// A change of the page tables.
#[derive(Debug)]
pub(super) enum TableOp<'a, P: Platform> {
    /// Removes pages and guards.
    Unmap(Range<u64>),
    /// Removes pages, keeps guards.
    Discard(Range<u64>),
    /// Installs guards at empty entries.
    InstallGuards(Range<u64>, u32),
    /// Removes guards, keeps pages, including those in swap.
    RemoveGuards(Range<u64>, u32),
    /// Changes permissions.
    Protect(Range<u64>, Change),
    /// Clears accessed or dirty bits. Pages stay as they are if that needs memory and there is
    /// none.
    Advise(Range<u64>, Change),
    /// Removes pages that are clean, or present elsewhere. The same applies.
    DropIdle(Range<u64>),
    /// Moves pages: from, to, bytes, and preallocated tables.
    Move(u64, u64, u64, Option<Preallocation<'a, Machine<P>>>),
    /// Frees the tables around an unmapped or moved range: where the VMA below ends, and the one
    /// above begins.
    FreeTables(Range<u64>, u64, u64),
}

impl<P: Platform> Mm<P> {
    /// Applies a change.
    ///
    /// Preconditions: the caller holds the address space's lock for writing.
    ///
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
            // Walks the entries, not the range: one guard may stand in a VMA of terabytes.
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

    /// Removes pages and guards. Out of line, as the others below, so that each change does without
    /// the others' stack frames.
    #[inline(never)]
    fn unmap(&self, range: &Range<u64>) -> Result<(), Error> {
        (self.tables)
            .unmap_reporting_tables(range.clone(), self.machine.tlb())
            .map(|emptied| self.note_unmapped(range, emptied))
    }

    /// Changes permissions.
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

    /// Removes pages or guards from a range that stays mapped. With `tables`, tables that lie fully
    /// in the range are freed, too.
    fn take(&self, range: &Range<u64>, take: UnmapFilter, tables: bool) -> Result<(), Error> {
        let mut discarded = Discarded::new();
        let tlb = self.machine.tlb();
        let done = (self.tables).unmap_with(range.clone(), take, tlb, |page, entry| {
            discarded.add(page, entry)
        });
        self.note_discarded(range, discarded, tables);
        done
    }

    /// Removes pages, guards, and pages in swap.
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

    /// Frees the slots of the pages in swap of a range.
    fn forget_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        if self.swapped() {
            self.drop_swapped(range)
        } else {
            Ok(())
        }
    }

    /// Installs guards page by page. Without memory, some guards are installed and others not.
    #[inline(never)]
    fn install_guards(&self, range: Range<u64>, marker: u32) -> Result<(), Error> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let mut page = range.start;
        while page < range.end {
            match tables.set_marker(page, Some(marker), tlb) {
                Ok(()) => {}
                // A concurrent fault mapped a page.
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
