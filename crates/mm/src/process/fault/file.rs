//! Faults of files and of shared memory.
//!
//! A page is mapped with the file's cache locked, so that truncation, which takes it from the cache
//! first, finds it in the tables afterwards. Reading a page from its source may block, so it
//! happens only if the caller holds a lock that sleeps.

use samara_paging::{Attrs, Entry, Error, Source};

use super::anon::{NewFrame, PagePte, replace_frame};
use super::{Blocking, Step, clean_attrs, dirty_attrs};
use crate::flags::{PAGE_SIZE, PMD_SIZE};
use crate::process::bytes;
use crate::process::file::{CachedPages, Inode, PageFrame};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::vma::{Area, Vma};

/// The bytes around a read fault whose cached pages are mapped with it, as Linux does by default.
const AROUND: u64 = 16 * PAGE_SIZE;

impl<P: Platform> Mm<P> {
    /// Handles a fault on an empty entry at `page` of a VMA that maps a file.
    #[inline(never)]
    pub(super) fn missing_file(
        &self,
        area: &Area<'_>,
        page: u64,
        write: bool,
        blocking: Blocking,
    ) -> Result<Step, Fault> {
        let vma = area.vma;
        let inode = Inode::of(vma).ok_or(Fault::ADRERR)?;
        let cache = inode.cache(&self.machine).map_err(|_| Fault::NoMemory)?;
        self.files.add(inode);
        let number = vma.page_offset(page);
        if inode.source().frame(number).is_some() {
            return self.map_frame(vma, page, write);
        }
        if !write {
            // The neighbours are mapped whether or not the file has this page. Lack of memory is
            // ignored.
            self.map_around(area, page, inode, &cache.lock());
            if self.tables.entry(page) != Entry::Empty {
                return Ok(Step::Again);
            }
        }
        if !vma.has_page(page) {
            return Err(Fault::ADRERR);
        }
        let shared_write = write && !vma.is_private();
        let (pages, phys) = match blocking {
            Blocking::Yes => cache.page(inode, number, shared_write)?,
            Blocking::No => match cache.page_if_cached(inode, number, shared_write) {
                Ok(Some(found)) => found,
                _ => return Ok(Step::NeedsWriteLock),
            },
        };
        if !write {
            return self.map(page, Source::Counted(phys), clean_attrs(vma.flags));
        }
        if vma.is_private() {
            let attrs = dirty_attrs(vma.flags);
            if self.machine.physical().get(phys).is_err() {
                // The frame has the highest count that fits. The locked cache keeps it during the copy.
                let frame = self.copy_to_new(phys)?;
                return self.map_new(page, frame, attrs);
            }
            let cuts = pages.cuts();
            // Unlocked while the bytes are copied, so that other faults do not wait for the copy.
            drop(pages);
            let copied = self.copy_to_new(phys);
            self.machine.physical().put(phys);
            let frame = copied?;
            // Locked again before it is mapped: truncation looks for the page in the tables after
            // this.
            let pages = cache.lock();
            if pages.cuts() != cuts {
                return Ok(Step::Again);
            }
            return self.map_new(page, frame, attrs);
        }
        self.map(page, Source::Counted(phys), dirty_attrs(vma.flags))
    }

    /// Handles a fault on an empty entry for which the source has a frame of its own.
    #[cold]
    #[inline(never)]
    fn map_frame(&self, vma: &Vma, page: u64, write: bool) -> Result<Step, Fault> {
        let inode = Inode::of(vma).ok_or(Fault::ADRERR)?;
        let cache = inode.cache(&self.machine).map_err(|_| Fault::NoMemory)?;
        let number = vma.page_offset(page);
        // Locked until the frame is mapped: a source that takes it back looks for it in the tables
        // after this.
        let pages = cache.lock();
        if number >= inode.pages() || !vma.has_page(page) {
            return Err(Fault::ADRERR);
        }
        let Some(frame) = inode.source().frame(number) else {
            return Ok(Step::Again);
        };
        let (source, more) = frame.source();
        let is_memory = self.machine.physical().frames().contains(frame.phys());
        if matches!(source, Source::Counted(_)) && !is_memory {
            return Err(Fault::ADRERR);
        }
        let step = if write && vma.is_private() {
            if !is_memory || more.contains(Attrs::DEVICE) {
                return Err(Fault::ADRERR);
            }
            let copy = self.copy_to_new(frame.phys())?;
            self.map_new(page, copy, dirty_attrs(vma.flags))
        } else {
            let attrs = match write {
                true => dirty_attrs(vma.flags),
                false => clean_attrs(vma.flags),
            };
            self.map(page, source, attrs | more)
        };
        drop(pages);
        step
    }

    /// Handles a write to a page of a private VMA whose uncounted frame belongs to the source.
    #[cold]
    #[inline(never)]
    pub(super) fn write_frame(
        &self,
        vma: &Vma,
        spot: &mut PagePte<'_, P>,
        phys: u64,
    ) -> Result<Step, Fault> {
        let device =
            matches!(spot.entry(), Entry::Page { attrs, .. } if attrs.contains(Attrs::DEVICE));
        if device || !self.machine.physical().frames().contains(phys) {
            return Err(Fault::ADRERR);
        }
        let copy = self.copy_to_new(phys)?;
        replace_frame(spot, phys, copy, vma)
    }

    /// Copies a file's page to a new frame. The caller keeps the page alive.
    fn copy_to_new(&self, phys: u64) -> Result<NewFrame<'_, P>, Fault> {
        let frame = self.new_frame()?;
        let physical = self.machine.physical();
        // SAFETY: the caller keeps the one frame, and the other is new.
        unsafe { bytes::copy_page(physical.to_virt(phys), physical.to_virt(frame.phys)) };
        Ok(frame)
    }

    /// Maps the cached pages around `page`, and `page` itself if it is cached.
    fn map_around(&self, area: &Area<'_>, page: u64, inode: &Inode, pages: &CachedPages) {
        let (from, to) = around(area, page);
        let end = inode.pages();
        let tlb = self.machine.tlb();
        let attrs = clean_attrs(area.vma.flags);
        let mut get = pages.in_order();
        let _ = self.tables.populate(from..to, attrs, tlb, |addr| {
            let number = Some(area.vma.page_offset(addr)).filter(|&number| number < end);
            Ok(number.and_then(&mut get).map(Source::Counted))
        });
    }

    /// Handles the first write to a page of a shared mapping since it was mapped or written back.
    /// It marks the cached page dirty, for shared memory, too. So droppable pages are known without
    /// dirty bits in the tables, which programs that interpret the tables may not set.
    #[inline(never)]
    pub(super) fn write_shared(&self, vma: &Vma, page: u64, phys: u64) -> Result<Step, Fault> {
        let inode = Inode::of(vma).ok_or(Fault::ADRERR)?;
        let cache = inode.cache(&self.machine).map_err(|_| Fault::NoMemory)?;
        let number = vma.page_offset(page);
        let tlb = self.machine.tlb();
        let mut pages = cache.lock();
        let of_owner = || inode.source().frame(number).map(PageFrame::phys);
        if pages.get(number) != Some(phys) && of_owner() != Some(phys) {
            // Truncated, and about to be unmapped: it must not be written any more.
            drop(pages);
            self.tables.unmap(page..page + PAGE_SIZE, tlb)?;
            return Ok(Step::Again);
        }
        pages.set_dirty(number);
        let add = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::SOFT_DIRTY;
        match self.tables.add_attrs(page, phys, add, tlb) {
            Ok(()) => Ok(Step::Done),
            Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the range that a read fault at `page` maps: [`AROUND`] bytes from an aligned address, or
/// from the start of the VMA if that is higher. It stays within the VMA and the last-level table.
fn around(area: &Area<'_>, page: u64) -> (u64, u64) {
    let table = page & !(PMD_SIZE - 1);
    let start = area.start.max(page & !(AROUND - 1));
    (
        start,
        start
            .saturating_add(AROUND)
            .min(area.end)
            .min(table.saturating_add(PMD_SIZE)),
    )
}
