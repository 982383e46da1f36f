//! Private memory: zeroes at first, a page at the first write, a copy when somebody else has the page, too.

use samara_paging::{Attrs, Entry, Error, Kind, PageSize, Source};

use super::{Step, readable, written};
use crate::flags::{PMD_SIZE, VmFlags};
use crate::process::bytes;
use crate::process::machine::HUGE_ORDER;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::space::vma::{Area, Vma};

impl<P: Platform> Mm<P> {
    /// Nothing is mapped at `page` of an anonymous area.
    pub(super) fn missing_anon(
        &self,
        area: &Area<'_>,
        page: u64,
        write: bool,
    ) -> Result<Step, Fault> {
        let vma = area.vma;
        if !write {
            if let Some(start) = huge_place(area, page)
                && let Some(zero) = self.machine.make_huge_zero()
                && self.map_huge(start, Source::Special(zero), readable(vma.flags))
            {
                return Ok(Step::Done);
            }
            let zero = Source::Special(self.machine.physical().zero_page());
            return self.map(page, zero, readable(vma.flags));
        }
        if let Some(start) = huge_place(area, page)
            && let Some(block) = self.new_huge()
        {
            if self.map_huge(start, Source::Owned(block), written(vma.flags)) {
                return Ok(Step::Done);
            }
            self.machine.physical().put_block(block, HUGE_ORDER);
        }
        let frame = self.new_frame()?;
        // SAFETY: a new frame.
        unsafe { bytes::clear_page(self.machine.physical().to_virt(frame.phys)) };
        self.map_new(page, frame, written(vma.flags))
    }

    /// Maps a page where nothing is.
    pub(super) fn map(&self, page: u64, source: Source, attrs: Attrs) -> Result<Step, Fault> {
        let tlb = self.machine.tlb();
        match self.tables.map(page, PageSize::Small, source, attrs, tlb) {
            Ok(()) => Ok(Step::Done),
            Err(Error::Exists) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Maps a new frame where nothing is.
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

    /// A huge page of zeroes, if there is such a block of memory.
    fn new_huge(&self) -> Option<u64> {
        let physical = self.machine.physical();
        let block = physical.alloc_block(HUGE_ORDER, Kind::Anon).ok()?;
        // SAFETY: a new block.
        unsafe { bytes::clear_huge(physical.to_virt(block)) };
        Some(block)
    }

    /// Maps a huge page at `start`; false: something is there already, or there is no memory for tables.
    fn map_huge(&self, start: u64, source: Source, attrs: Attrs) -> bool {
        self.set_divisible();
        let tlb = self.machine.tlb();
        self.tables
            .map(start, PageSize::Large, source, attrs, tlb)
            .is_ok()
    }

    /// A write to the huge page of zeroes: a huge page takes its place, or else it is divided.
    fn write_huge_zero(&self, vma: &Vma, page: u64) -> Result<Step, Fault> {
        let start = page & !(PMD_SIZE - 1);
        let tlb = self.machine.tlb();
        let Some(block) = self.new_huge() else {
            return self.divide(page);
        };
        self.tables.unmap(start..start + PMD_SIZE, tlb)?;
        // Another thread may find nothing in between, and fault.
        if self.map_huge(start, Source::Owned(block), written(vma.flags)) {
            return Ok(Step::Done);
        }
        self.machine.physical().put_block(block, HUGE_ORDER);
        Ok(Step::Again)
    }

    /// Divides a huge page.
    fn divide(&self, page: u64) -> Result<Step, Fault> {
        match self.tables.split(page, PageSize::Small, self.machine.tlb()) {
            Ok(()) | Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// A write to a page of a private area that is mapped without permission to write.
    pub(super) fn copy_on_write(&self, vma: &Vma, page: u64) -> Result<Step, Fault> {
        let tlb = self.machine.tlb();
        let Entry::Page { attrs, size, phys } = self.tables.entry(page) else {
            return Ok(Step::Again);
        };
        let zero = attrs.contains(Attrs::SPECIAL);
        if !zero {
            match self.tables.write_alone(page, phys, tlb) {
                Ok(true) => return Ok(Step::Done),
                Ok(false) => {}
                Err(Error::NotMapped) => return Ok(Step::Again),
                Err(error) => return Err(error.into()),
            }
        }
        if size != PageSize::Small {
            return if zero {
                self.write_huge_zero(vma, page)
            } else {
                self.divide(page)
            };
        }
        let physical = self.machine.physical();
        let frame = self.new_frame()?;
        let to = physical.to_virt(frame.phys);
        if zero {
            // SAFETY: a new frame.
            unsafe { bytes::clear_page(to) };
        } else {
            let Ok(old) = self.tables.pin(page, Attrs::empty()) else {
                return Ok(Step::Again);
            };
            let from = physical.to_virt(old.phys());
            let info = physical.frames().info(old.phys());
            if info.is_some_and(|info| info.kind == Kind::Anon) {
                // SAFETY: a new frame; the old one is held, and private memory that several have is written by none.
                unsafe { bytes::copy_still_page(from, to) };
            } else {
                // SAFETY: as above, but for a file's page, which programs change by atomic stores.
                unsafe { bytes::copy_page(from, to) };
            }
            let same = old.phys() == phys;
            old.put(physical);
            if !same {
                return Ok(Step::Again);
            }
        }
        let (source, attrs) = (Source::Owned(frame.phys), written(vma.flags));
        match self.tables.exchange(page, phys, source, attrs, tlb) {
            Ok(()) => {
                frame.keep();
                Ok(Step::Done)
            }
            Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// A frame for private memory, of any content.
    pub(super) fn new_frame(&self) -> Result<NewFrame<'_, P>, Fault> {
        let phys = self.machine.physical().alloc_page(Kind::Anon)?;
        Ok(NewFrame { mm: self, phys })
    }
}

/// A frame that nobody else knows, given back unless it is kept.
pub(super) struct NewFrame<'a, P: Platform> {
    mm: &'a Mm<P>,
    pub(super) phys: u64,
}

impl<P: Platform> NewFrame<'_, P> {
    /// The tables have it now.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl<P: Platform> Drop for NewFrame<'_, P> {
    fn drop(&mut self) {
        self.mm.machine.physical().put(self.phys);
    }
}

/// Where a huge page around `page` would begin, if the area asks for such and holds all of it.
fn huge_place(area: &Area<'_>, page: u64) -> Option<u64> {
    let flags = area.vma.flags;
    let start = page & !(PMD_SIZE - 1);
    (flags.contains(VmFlags::HUGEPAGE)
        && !flags.contains(VmFlags::NOHUGEPAGE)
        && area.start <= start
        && area.end - start >= PMD_SIZE)
        .then_some(start)
}
