//! Faults of private memory: the zero page, a new page at the first write, copy-on-write.

use samara_paging::{Attrs, Error, Kind, PageSize, PteRef, Source};

use super::{Step, clean_attrs, dirty_attrs};
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::process::bytes;
use crate::process::machine::{HUGE_ORDER, Machine};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::vma::{Area, Vma};

/// The page-table entry of a page of a process.
pub(super) type PagePte<'a, P> = PteRef<'a, <P as Platform>::Format, Machine<P>>;

impl<P: Platform> Mm<P> {
    /// Handles a fault on an empty entry at `page` of an anonymous VMA.
    #[inline]
    pub(super) fn missing_anon(
        &self,
        area: &Area<'_>,
        page: u64,
        write: bool,
        pte: &mut PagePte<'_, P>,
    ) -> Result<Step, Fault> {
        let vma = area.vma;
        if !write {
            if let Some(start) = huge_start(area, page)
                && let Some(zero) = self.machine.make_huge_zero()
                && self.map_huge(start, Source::Special(zero), clean_attrs(vma.flags))
            {
                return Ok(Step::Done);
            }
            let zero = Source::Special(self.machine.physical().zero_page());
            return map_step(pte.map(zero, clean_attrs(vma.flags)));
        }
        if let Some(start) = huge_start(area, page)
            && let Some(block) = self.new_huge()
        {
            if self.map_huge(start, Source::Owned(block), dirty_attrs(vma.flags)) {
                return Ok(Step::Done);
            }
            self.machine.physical().put_block(block, HUGE_ORDER);
        }
        let frame = self.frame_for(pte)?;
        // SAFETY: a new frame.
        unsafe { bytes::clear_page(self.machine.physical().to_virt(frame.phys)) };
        let source = Source::Owned(frame.phys);
        let step = map_step(pte.map(source, dirty_attrs(vma.flags)))?;
        if matches!(step, Step::Done) {
            frame.keep();
        }
        Ok(step)
    }

    /// Maps new pages in `[start, end)`, a part of a VMA, many under one lock of their table.
    /// Returns the address at which it stopped.
    ///
    /// It works only on private, anonymous, writable memory, and stops at the first page that is
    /// present or cannot be had. From there on the caller faults page by page, which also finds the
    /// reason.
    pub(in crate::process) fn fill_anon(&self, area: &Area<'_>, start: u64, end: u64) -> u64 {
        let vma = area.vma;
        let plain = vma.is_private() && vma.is_anonymous() && vma.anon().is_some();
        if !plain || !vma.flags.contains(VmFlags::WRITE) || vma.flags.contains(VmFlags::HUGEPAGE) {
            return start;
        }
        let physical = self.machine.physical();
        let mut frames = [0; FILLED_AT_ONCE];
        let mut at = start;
        while at < end {
            let wanted = usize::try_from((end - at) / PAGE_SIZE).unwrap_or(usize::MAX);
            // All frames are allocated before the first is cleared. A lock in between would wait
            // each time until the zeroes have left the store buffer.
            let frames = &mut frames[..wanted.min(FILLED_AT_ONCE)];
            let count = physical.alloc_zeroed_pages(Kind::Anon, frames);
            let upto = at + count as u64 * PAGE_SIZE;
            let (attrs, tlb) = (dirty_attrs(vma.flags), self.machine.tlb());
            let frames = &frames[..count];
            let (mapped, result) = self.tables.populate_owned(at..upto, attrs, tlb, frames);
            frames[mapped..].iter().for_each(|&phys| physical.put(phys));
            if count == 0 || mapped < count || result.is_err() {
                break;
            }
            at = upto;
        }
        at
    }

    /// Returns `true` if even a read gives the VMA its owner of private pages. Linux does so before
    /// it maps a huge page there, including the huge zero page. (Observed on 6.18. Where there is a
    /// table already, small pages are mapped.)
    #[inline(always)]
    pub(crate) fn is_owned_by_reading(&self, area: &Area<'_>, page: u64) -> bool {
        area.vma.flags.contains(VmFlags::HUGEPAGE) && self.is_owned_where_advised(area, page)
    }

    /// Does the same for VMAs with advised huge pages. Out of line, so that other faults only
    /// test the flag.
    #[cold]
    fn is_owned_where_advised(&self, area: &Area<'_>, page: u64) -> bool {
        let vma = area.vma;
        vma.is_private()
            && vma.is_anonymous()
            && vma.anon().is_none()
            && huge_start(area, page)
                .filter(|&start| !self.retained_tables().has(start))
                .is_some_and(|start| self.tables.is_vacant(start, PageSize::Large))
    }

    /// Maps a page at an empty entry.
    pub(super) fn map(&self, page: u64, source: Source, attrs: Attrs) -> Result<Step, Fault> {
        let tlb = self.machine.tlb();
        map_step(self.tables.map(page, PageSize::Small, source, attrs, tlb))
    }

    /// Maps a new frame at an empty entry.
    pub(super) fn map_new(
        &self,
        page: u64,
        frame: NewFrame<'_, P>,
        attrs: Attrs,
    ) -> Result<Step, Fault> {
        let step = self.map(page, Source::Owned(frame.phys), attrs)?;
        if matches!(step, Step::Done) {
            frame.keep();
        }
        Ok(step)
    }

    /// Allocates a zeroed huge page, if there is such a block of memory.
    #[inline(never)]
    fn new_huge(&self) -> Option<u64> {
        let physical = self.machine.physical();
        physical.alloc_zeroed_block(HUGE_ORDER, Kind::Anon).ok()
    }

    /// Maps a huge page at `start`. Returns `false` if something is mapped there already, or there
    /// is no memory for tables.
    #[inline(never)]
    fn map_huge(&self, start: u64, source: Source, attrs: Attrs) -> bool {
        if self.retained_tables().has(start) {
            return false;
        }
        self.set_may_need_split();
        let tlb = self.machine.tlb();
        self.tables
            .map(start, PageSize::Large, source, attrs, tlb)
            .is_ok()
    }

    /// Handles a write to the huge zero page: replaces it by a huge page, or splits it.
    #[inline(never)]
    fn write_huge_zero(&self, vma: &Vma, page: u64) -> Result<Step, Fault> {
        let start = page & !(PMD_SIZE - 1);
        let tlb = self.machine.tlb();
        let Some(block) = self.new_huge() else {
            return self.split_huge(page);
        };
        self.tables.unmap(start..start + PMD_SIZE, tlb)?;
        // Another thread may find the entry empty in between, and fault.
        if self.map_huge(start, Source::Owned(block), dirty_attrs(vma.flags)) {
            return Ok(Step::Done);
        }
        self.machine.physical().put_block(block, HUGE_ORDER);
        Ok(Step::Again)
    }

    /// Splits the huge page around `page`.
    #[inline(never)]
    pub(super) fn split_huge(&self, page: u64) -> Result<Step, Fault> {
        match self.tables.split(page, PageSize::Small, self.machine.tlb()) {
            Ok(()) | Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Handles a write to a present page of a private VMA that may not be written. `phys` is its
    /// frame. Out of line, so that other faults do without its stack frame.
    #[inline(never)]
    pub(super) fn copy_on_write(
        &self,
        vma: &Vma,
        page: u64,
        pte: &mut PagePte<'_, P>,
        phys: u64,
        size: PageSize,
    ) -> Result<Step, Fault> {
        if size != PageSize::Small || pte.seems_exclusive(phys) {
            match pte.reuse_exclusive(phys) {
                Ok(true) => return Ok(Step::Done),
                Ok(false) if size != PageSize::Small => return self.split_huge(page),
                Ok(false) => {}
                Err(Error::NotMapped) => return Ok(Step::Again),
                Err(error) => return Err(error.into()),
            }
        }
        let frame = self.frame_for(pte)?;
        let physical = self.machine.physical();
        let copy = |still| {
            let (from, to) = (physical.to_virt(phys), physical.to_virt(frame.phys));
            if still {
                // SAFETY: a new frame. The old one stays mapped while this runs, and shared private
                // memory is not written.
                unsafe { bytes::copy_still_page(from, to) };
            } else {
                // SAFETY: as above, except that the old frame is a file's page, which programs
                // change by atomic stores.
                unsafe { bytes::copy_page(from, to) };
            }
        };
        match pte.copy_on_write(phys, frame.phys, dirty_attrs(vma.flags), copy) {
            Ok(true) => {
                frame.keep();
                Ok(Step::Done)
            }
            // The other owners have given it up by now.
            Ok(false) => Ok(Step::Done),
            Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Does the same for the zero page, and for other frames that are not counted.
    #[inline(never)]
    pub(super) fn write_zero(
        &self,
        vma: &Vma,
        page: u64,
        pte: &mut PagePte<'_, P>,
        phys: u64,
        size: PageSize,
    ) -> Result<Step, Fault> {
        if size != PageSize::Small {
            return self.write_huge_zero(vma, page);
        }
        if phys != self.machine.physical().zero_page() {
            return self.write_frame(vma, pte, phys);
        }
        let frame = self.frame_for(pte)?;
        // SAFETY: a new frame.
        unsafe { bytes::clear_page(self.machine.physical().to_virt(frame.phys)) };
        replace_frame(pte, phys, frame, vma)
    }

    /// Allocates a frame for the entry. On failure it unlocks the table and retries, because the
    /// lock may delay the freeing of tables.
    #[inline]
    fn frame_for(&self, pte: &mut PagePte<'_, P>) -> Result<NewFrame<'_, P>, Fault> {
        match self.new_frame() {
            Ok(frame) => Ok(frame),
            Err(_) => self.frame_outside(pte),
        }
    }

    #[cold]
    fn frame_outside(&self, pte: &mut PagePte<'_, P>) -> Result<NewFrame<'_, P>, Fault> {
        pte.outside_section(|| self.new_frame())
    }

    /// Allocates a frame for private memory, of any content.
    #[inline]
    pub(super) fn new_frame(&self) -> Result<NewFrame<'_, P>, Fault> {
        let phys = self.machine.physical().alloc_page(Kind::Anon)?;
        Ok(NewFrame { mm: self, phys })
    }
}

/// The number of pages cleared before their table is locked for all of them.
const FILLED_AT_ONCE: usize = 64;

/// A frame known only here. Dropping it frees the frame, unless it is kept.
pub(super) struct NewFrame<'a, P: Platform> {
    mm: &'a Mm<P>,
    pub(super) phys: u64,
}

impl<P: Platform> NewFrame<'_, P> {
    /// Leaves the frame to the tables.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl<P: Platform> Drop for NewFrame<'_, P> {
    fn drop(&mut self) {
        self.mm.machine.physical().put(self.phys);
    }
}

/// Converts the result of mapping a page.
#[inline]
fn map_step(result: Result<(), Error>) -> Result<Step, Fault> {
    match result {
        Ok(()) => Ok(Step::Done),
        Err(Error::Exists) => Ok(Step::Again),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the old frame by the new one, if it is still mapped.
pub(super) fn replace_frame<P: Platform>(
    pte: &mut PagePte<'_, P>,
    old: u64,
    frame: NewFrame<'_, P>,
    vma: &Vma,
) -> Result<Step, Fault> {
    match pte.replace(old, Source::Owned(frame.phys), dirty_attrs(vma.flags)) {
        Ok(()) => {
            frame.keep();
            Ok(Step::Done)
        }
        Err(Error::NotMapped) => Ok(Step::Again),
        Err(error) => Err(error.into()),
    }
}

/// Returns the start of the huge page around `page`, if the VMA wants huge pages and contains all
/// of it.
fn huge_start(area: &Area<'_>, page: u64) -> Option<u64> {
    let flags = area.vma.flags;
    let start = page & !(PMD_SIZE - 1);
    (flags.contains(VmFlags::HUGEPAGE)
        && !flags.contains(VmFlags::NOHUGEPAGE)
        && area.start <= start
        && area.end - start >= PMD_SIZE)
        .then_some(start)
}
