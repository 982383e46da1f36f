//! Operations on all mappings of a file: truncation, holes, write-back.
//!
//! Processes that may have pages of the file (see `file_filter`) are visited one after the other.
//! Each visit locks one address space for reading, and no other lock. A concurrent fault maps the
//! changed file: see `cache`.

use core::ops::{ControlFlow, Range};

use samara_paging::{Attrs, Change, UnmapFilter};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::object::Object;
use crate::process::atomic_ops::check_machine;
use crate::process::bytes;
use crate::process::file::bounce_buffer::BounceBuffer;
use crate::process::file::cache::{Cache, clear_beyond};
use crate::process::file::inode::Inode;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::vma::Vma;

/// The number of pages written back between two visits to all processes.
const BATCH: usize = 32;

impl<P: Platform> Machine<P> {
    /// Truncates a file whose source already has the new `size` in bytes.
    ///
    /// Pages wholly beyond the end leave every mapping, private copies included. The bytes beyond
    /// the end in the last page are zeroed, except in private copies. Linear in the processes, and
    /// in the VMAs of those that have had pages of the file.
    ///
    /// # Errors
    /// `EINVAL` if the object is not a file's. `EDEADLK` from within an [atomic
    /// operation](super::super::Process::atomic_u32) on a process of this machine. No memory is
    /// needed.
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

    /// Extends a file that had `before` bytes.
    ///
    /// The bytes that programs have stored beyond the old end in its last page were not part of the
    /// file, and are zeroed. Shared memory keeps them, as in Linux. The call may be left out: then
    /// such bytes become part of the file.
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

    /// Punches a hole: the bytes of `[start, end)`, multiples of 4,096, have become zero in the
    /// source.
    ///
    /// The pages leave every mapping, and private copies stay. Linear as
    /// [`truncate`](Self::truncate).
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
            // Without memory for tables. Each process that uses a shared table maps the file's page
            // there, and so loses it as well.
            self.each_mapping(inode, first, end, |mm, _, range| {
                let _ = mm.tables.rmap_revoke(range, take, self.tlb());
            });
            result = Ok(());
            self.each_mapping(inode, first, end, |mm, _, range| {
                // Only a huge page of a private mapping would stay, and files have none.
                if let Ok(false) = mm.tables.rmap_unmap(range, take, self.tlb()) {
                    result = Err(Errno::ENOMEM);
                }
            });
        }
        result
    }

    /// Writes all dirty pages of the file to its source (`fsync(2)`). Linear as
    /// [`truncate`](Self::truncate) if there is a dirty page.
    ///
    /// # Errors
    /// An error of the source, after all pages were tried. The failed pages stay dirty. `ENOMEM`;
    /// `EINVAL` and `EDEADLK` as [`truncate`](Self::truncate).
    pub fn sync_file(&self, object: &Object) -> Result<(), Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        self.write_back(inode, 0, u64::MAX)
    }

    /// Writes the dirty pages of a range of the file's pages to the source.
    ///
    /// # Errors
    /// An error of the source, after all pages were tried. The failed pages stay dirty. `ENOMEM`:
    /// tables that are shared after a fork could not be split.
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
            let (count, taken) = self.take_dirty(cache, &mut next, end, &mut batch);
            if taken.is_err() {
                result = taken;
            }
            let batch = batch.get(..count).unwrap_or(&batch);
            let (Some(lowest), Some(highest)) = (batch.first(), batch.last()) else {
                return result;
            };
            let protected = self.write_protect(inode, lowest.0, highest.0 + 1);
            // As in Linux, programs see no more than was written.
            cache.clear_end(inode.source());
            for &(page, phys) in batch {
                let written =
                    protected.and_then(|()| self.write_page(inode, page, phys, &mut copy));
                if written.is_err() {
                    let mut pages = cache.lock();
                    if pages.get(page) == Some(phys) {
                        pages.set_dirty(page);
                    }
                    result = written;
                }
                self.physical().put(phys);
            }
        }
    }

    /// Takes dirty pages from `next` on up to `end` into `batch`, with a reference on each, and
    /// marks them clean. Returns their number.
    ///
    /// # Errors
    /// `ENOMEM` if a frame has the highest count that fits. Its page stays dirty.
    fn take_dirty(
        &self,
        cache: &Cache<P>,
        next: &mut u64,
        end: u64,
        batch: &mut [(u64, u64); BATCH],
    ) -> (usize, Result<(), Errno>) {
        let mut result = Ok(());
        let mut count = 0;
        let mut pages = cache.lock();
        while count < BATCH
            && let Some((page, phys)) = pages.take_dirty(*next, end)
        {
            *next = page + 1;
            if self.physical().get(phys).is_err() {
                pages.set_dirty(page);
                result = Err(Errno::ENOMEM);
                continue;
            }
            batch[count] = (page, phys);
            count += 1;
        }
        (count, result)
    }

    /// Takes the permission to write from the pages `first .. end` in all shared mappings. A page
    /// written after this is dirty again, by a fault. A page written before is written back
    /// with these bytes.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn write_protect(&self, inode: &Inode, first: u64, end: u64) -> Result<(), Errno> {
        let mut protected = Ok(());
        self.each_mapping(inode, first, end, |mm, vma, range| {
            if vma.flags.contains(VmFlags::SHARED) {
                let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
                if mm.tables.protect(range, change, self.tlb()).is_err() {
                    protected = Err(Errno::ENOMEM);
                }
            }
        });
        protected
    }

    /// Writes one page back. The caller has a reference on its frame.
    ///
    /// # Errors
    /// The source's.
    fn write_page(
        &self,
        inode: &Inode,
        page: u64,
        phys: u64,
        copy: &mut BounceBuffer,
    ) -> Result<(), Errno> {
        copy.with(|copy| {
            // SAFETY: the caller's reference keeps the frame.
            unsafe { bytes::load(self.physical().to_virt(phys), copy) };
            // Programs may have stored beyond the end since `clear_end`.
            clear_beyond(inode.source(), page, copy);
            inode.source().write_page(page, copy)
        })
    }

    /// Visits the parts of VMAs that map pages `first .. end` of a file, in processes that may have
    /// pages of it.
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

/// The number of pages handled between two looks at the tables.
const AT_ONCE: u64 = u64::BITS as u64;

impl<P: Platform> Mm<P> {
    /// Removes pages of a part of a VMA that no other process maps from the tables
    /// (`MADV_PAGEOUT`), and clean ones from the cache. Pages whose removal needs memory that there
    /// is not stay.
    ///
    /// Preconditions: the caller holds the address space's lock for writing, and the VMA is closed
    /// to faults.
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
            // A page that another process maps concurrently is in its tables when these pages are
            // unlocked.
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
