//! What is done to a file in all of its mappings.
//!
//! Processes that may have pages of the file (see `seen`) are visited one after the other, with each one's address space locked for reading, and no other lock. Whoever maps a page of the file
//! meanwhile finds it as it is now: see `cache`.

use core::ops::{ControlFlow, Range};

use samara_paging::{Attrs, Change, UnmapFilter};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::pages::Object;
use crate::process::atomic_ops::check_machine;
use crate::process::bytes;
use crate::process::file::bounce_buffer::BounceBuffer;
use crate::process::file::cache::clear_beyond;
use crate::process::file::inode::Inode;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::space::vma::Vma;

/// Pages that are written back between two visits to all processes.
const BATCH: usize = 32;

impl<P: Platform> Machine<P> {
    /// The file has become shorter, and its source says so already: pages wholly beyond `size` (bytes) leave every mapping, private copies too; what the last
    /// page holds beyond the end is zeroed, not in private copies. Linear in the processes, and in the areas of those that have had pages of the file.
    ///
    /// # Errors
    /// `EINVAL` if the object is not a file's, `EDEADLK` from within an [atomic operation](super::super::Process::atomic_u32) on a process of this machine. No memory is needed.
    pub fn truncate(&self, object: &Object, size: u64) -> Result<(), Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        check_machine(self.number())?;
        let Some(cache) = inode.known(self) else {
            return self.unmap_file(
                inode,
                size.div_ceil(PAGE_SIZE),
                u64::MAX,
                UnmapFilter::Pages,
            );
        };
        let first = size.div_ceil(PAGE_SIZE);
        cache.cut(first, u64::MAX);
        cache.clear_tail(size, inode.source().is_memory());
        self.unmap_file(inode, first, u64::MAX, UnmapFilter::Pages)
    }

    /// The file has become longer, and had `before` bytes: what programs have stored in its last page beyond that was no part of it, and is zero now. Shared memory
    /// keeps it, as in Linux. A file need not be told of: then such bytes are its own from then on.
    ///
    /// # Errors
    /// `EINVAL` if the object is not a file's.
    pub fn extend(&self, object: &Object, before: u64) -> Result<(), Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        if let Some(cache) = inode.known(self)
            && !inode.source().is_memory()
        {
            cache.clear_tail(before, false);
        }
        Ok(())
    }

    /// The bytes of `[start, end)`, multiples of 4,096, have become zero, and the source has been told: the pages leave every mapping, private copies stay. Linear
    /// as [`truncate`](Self::truncate).
    ///
    /// # Errors
    /// As [`truncate`](Self::truncate).
    pub fn punch(&self, object: &Object, start: u64, end: u64) -> Result<(), Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        if !(start | end).is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        check_machine(self.number())?;
        let (first, end) = (start / PAGE_SIZE, end / PAGE_SIZE);
        if let Some(cache) = inode.known(self) {
            cache.cut(first, end);
        }
        self.unmap_file(inode, first, end, UnmapFilter::FilePages)
    }

    fn unmap_file(
        &self,
        inode: &Inode,
        first: u64,
        end: u64,
        take: UnmapFilter,
    ) -> Result<(), Errno> {
        let mut result = Ok(());
        self.each_mapping(inode, first, end, |mm, _, range| {
            let taken = mm.tables.unmap_with(range, take, self.tlb(), |_, _| {});
            if taken.is_err() {
                result = Err(Errno::ENOMEM);
            }
        });
        while result.is_err() {
            // Without memory for tables. Who uses a table with a page of the file maps it there, and so loses it as well.
            self.each_mapping(inode, first, end, |mm, _, range| {
                let _ = mm.tables.rmap_revoke(range, take, self.tlb());
            });
            result = Ok(());
            self.each_mapping(inode, first, end, |mm, _, range| {
                // A huge page of a private mapping would stay; there are none of files.
                if let Ok(false) = mm.tables.rmap_unmap(range, take, self.tlb()) {
                    result = Err(Errno::ENOMEM);
                }
            });
        }
        result
    }

    /// Writes out everything that was written to the file's pages, as `fsync(2)`. Linear as [`truncate`](Self::truncate) if there is anything.
    ///
    /// # Errors
    /// The first of the source's, after all pages have been tried; those that failed are still to be written. `ENOMEM`; `EINVAL` and `EDEADLK` as
    /// [`truncate`](Self::truncate).
    pub fn sync_file(&self, object: &Object) -> Result<(), Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        self.write_back(inode, 0, u64::MAX)
    }

    /// Writes back the dirty pages of a range of the file's pages.
    ///
    /// # Errors
    /// The source's, after all pages have been tried; those that failed are still dirty. `ENOMEM`: tables that are shared after a fork could not be divided.
    pub(crate) fn write_back(&self, inode: &Inode, first: u64, end: u64) -> Result<(), Errno> {
        let Some(cache) = inode.known(self) else {
            return Ok(());
        };
        if inode.source().is_memory() {
            return Ok(());
        }
        check_machine(self.number())?;
        let mut result = Ok(());
        let mut next = first;
        let mut copy = BounceBuffer::new();
        loop {
            let mut batch = [(0, 0); BATCH];
            let mut count = 0;
            {
                let mut pages = cache.lock();
                while count < BATCH
                    && let Some((page, phys)) = pages.take_dirty(next, end)
                {
                    next = page + 1;
                    if self.physical().get(phys).is_err() {
                        pages.set_dirty(page);
                        result = Err(Errno::ENOMEM);
                        continue;
                    }
                    batch[count] = (page, phys);
                    count += 1;
                }
            }
            let batch = &batch[..count];
            let (Some(lowest), Some(highest)) = (batch.first(), batch.last()) else {
                return result;
            };
            // A page that is written after this is dirty again, by a fault; one that is written before is written back as it is then.
            let mut protected = Ok(());
            self.each_mapping(inode, lowest.0, highest.0 + 1, |mm, vma, range| {
                if vma.flags.contains(VmFlags::SHARED) {
                    let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
                    if mm.tables.protect(range, change, self.tlb()).is_err() {
                        protected = Err(Errno::ENOMEM);
                    }
                }
            });
            // As in Linux, programs see no more than was written.
            cache.clear_end(inode.source());
            for &(page, phys) in batch {
                let written = copy.with(|copy| {
                    // SAFETY: the reference keeps the frame.
                    unsafe { bytes::load(self.physical().to_virt(phys), copy) };
                    // What was stored there since.
                    clear_beyond(inode.source(), page, copy);
                    protected.and_then(|()| inode.source().write_page(page, copy))
                });
                if let Err(error) = written {
                    let mut pages = cache.lock();
                    if pages.get(page) == Some(phys) {
                        pages.set_dirty(page);
                    }
                    result = Err(error);
                }
                self.physical().put(phys);
            }
        }
    }

    /// Visits the parts of areas that map pages `first .. end` of a file, where any was ever brought in.
    fn each_mapping(
        &self,
        inode: &Inode,
        first: u64,
        end: u64,
        mut visit: impl FnMut(&Mm<P>, &Vma, Range<u64>),
    ) {
        let may_have = |mm: &Mm<P>| mm.files.may_have(inode);
        self.each_process_that(may_have, |mm| {
            let space = mm.space.read();
            for area in space.areas.iter() {
                if !Inode::of(area.vma).is_some_and(|other| core::ptr::eq(other, inode)) {
                    continue;
                }
                let pages = (area.end - area.start) / PAGE_SIZE;
                let from = area.page_offset();
                let low = first.saturating_sub(from).min(pages);
                let high = end.saturating_sub(from).min(pages);
                if low < high {
                    let range = area.start + low * PAGE_SIZE..area.start + high * PAGE_SIZE;
                    visit(mm, area.vma, range);
                }
            }
        });
    }
}

/// Pages that are given up between two looks at the tables.
const AT_ONCE: u64 = u64::BITS as u64;

impl<P: Platform> Mm<P> {
    /// Pages of a part of an area that nobody else maps leave the tables (`MADV_PAGEOUT`), and those of the file that were never written leave memory. What would take
    /// memory that there is not stays as it is. The caller holds the address space's lock for writing, and the area is closed to faults.
    pub(in crate::process) fn page_out(&self, start: u64, end: u64, vma: &Vma, inode: &Inode) {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let Some(cache) = inode.known(&self.machine) else {
            return;
        };
        let mut next = start;
        while next < end {
            let found = tables.walk_until(next..end, |page, _| ControlFlow::Break(page.max(next)));
            let ControlFlow::Break(first) = found else {
                return;
            };
            // What others map meanwhile is in their tables when these pages are unlocked.
            let mut pages = cache.lock();
            let mut gone = 0;
            next = end.min(first + AT_ONCE * PAGE_SIZE);
            let taken = tables.unmap_with(first..next, UnmapFilter::Reclaimable, tlb, |page, _| {
                gone |= 1u64 << (page.saturating_sub(first) / PAGE_SIZE);
            });
            if taken.is_err() {
                return;
            }
            while gone != 0 {
                let page = first + u64::from(gone.trailing_zeros()) * PAGE_SIZE;
                gone &= gone - 1;
                pages.drop_clean(&self.machine, vma.page_offset(page));
            }
        }
    }
}
