//! The cached pages of a file on one machine.
//!
//! The cache has one reference on each of its frames. Mappings are counted separately.
//!
//! A page is read into a frame without the lock, and inserted with it. If another thread inserted
//! the page first, that page is used. If pages were cut off during the read (`cuts`), the bytes may be
//! out of date, and the page is read again.
//!
//! Pages are mapped with the lock held. Truncation first takes pages out of the cache, and so finds
//! in the tables all that were mapped before.

use lock_api::{Mutex, MutexGuard};
use samara_paging::Kind;

use crate::flags::PAGE_SIZE;
use crate::process::bytes;
use crate::process::file::bounce_buffer::BounceBuffer;
use crate::process::file::cached::CachedPages;
use crate::process::file::inode::{ErasedCache, Inode};
use crate::process::file::source::{PAGE_BYTES, PageSource};
use crate::process::file::writeback::Writeback;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::process::signal::Fault;

/// The cached pages of a file on one machine.
pub(crate) struct Cache<P: Platform> {
    machine: Machine<P>,
    pages: Mutex<P::Mutex, CachedPages>,
}

/// The locked pages, and the frame of one of them.
type Locked<'a, P> = (MutexGuard<'a, <P as Platform>::Mutex, CachedPages>, u64);

impl<P: Platform> Cache<P> {
    pub(super) fn new(machine: Machine<P>) -> Self {
        Cache {
            machine,
            pages: Mutex::new(CachedPages::new()),
        }
    }

    /// Locks the pages.
    pub(crate) fn lock(&self) -> MutexGuard<'_, P::Mutex, CachedPages> {
        self.pages.lock()
    }

    /// Returns the frame of a page, if it is cached, and the locked pages, which keep it. With
    /// `to_write` the page becomes dirty.
    ///
    /// # Errors
    /// [`Fault::ADRERR`] beyond the end.
    pub(crate) fn page_if_cached(
        &self,
        inode: &Inode,
        page: u64,
        to_write: bool,
    ) -> Result<Option<Locked<'_, P>>, Fault> {
        let mut pages = self.lock();
        if page >= inode.pages() {
            return Err(Fault::ADRERR);
        }
        let phys = pages.find(page, to_write);
        Ok(phys.map(|phys| (pages, phys)))
    }

    /// Returns the frame of a page, which is read if it is not cached, and the locked pages, which
    /// keep it. With `to_write` the page becomes dirty.
    ///
    /// # Errors
    /// [`Fault::ADRERR`] beyond the end, and if the page cannot be read; [`Fault::NoMemory`].
    pub(crate) fn page(
        &self,
        inode: &Inode,
        page: u64,
        to_write: bool,
    ) -> Result<Locked<'_, P>, Fault> {
        let physical = self.machine.physical();
        loop {
            let mut pages = self.lock();
            if page >= inode.pages() {
                return Err(Fault::ADRERR);
            }
            if let Some(phys) = pages.find(page, to_write) {
                return Ok((pages, phys));
            }
            let cuts = pages.cuts();
            drop(pages);
            let phys = physical.alloc_page(Kind::File)?;
            let read = self.read(inode.source(), page, phys);
            let mut pages = self.lock();
            if read.is_ok() && pages.cuts() == cuts && pages.get(page).is_none() {
                if pages.put(page, phys, to_write).is_ok() {
                    return Ok((pages, phys));
                }
                physical.put(phys);
                return Err(Fault::NoMemory);
            }
            drop(pages);
            physical.put(phys);
            read?;
        }
    }

    fn read(&self, source: &dyn PageSource, page: u64, phys: u64) -> Result<(), Fault> {
        let at = self.machine.physical().to_virt(phys);
        // SAFETY: a new frame, known only here.
        unsafe {
            bytes::clear_page(at);
            if !source.is_memory() {
                let into = at.cast::<[u8; PAGE_BYTES]>().as_mut();
                source.read_page(page, into).map_err(|_| Fault::ADRERR)?;
            }
        }
        Ok(())
    }

    /// Removes the pages from `first` up to `end` from the file.
    pub(super) fn cut(&self, first: u64, end: u64) {
        let physical = self.machine.physical();
        self.lock().cut(first, end, |phys| physical.put(phys));
    }

    /// Zeroes the bytes beyond the end in the last page of a file with `end` bytes, if it is
    /// cached. With `keeps` (the cache is the only copy) the page becomes dirty.
    pub(super) fn clear_tail(&self, end: u64, keeps: bool) {
        let mut pages = self.lock();
        if keeps {
            pages.set_dirty(end / PAGE_SIZE);
        }
        pages.clear_tail(self.machine.physical(), end);
    }

    /// Zeroes the bytes beyond the end of a page that is about to be written back. A dirty page is
    /// left alone: it was written again, and the file may have grown before that.
    pub(super) fn clear_end(&self, source: &dyn PageSource) {
        let pages = self.lock();
        let end = source.size();
        if !pages.is_dirty(end / PAGE_SIZE) {
            // A store needs a fault first, which needs the lock.
            pages.clear_tail(self.machine.physical(), end);
        }
    }
}

impl<P: Platform> ErasedCache for Cache<P> {
    fn release(&mut self, source: &dyn PageSource, written: &mut Writeback) {
        let physical = self.machine.physical();
        let pages = self.pages.get_mut();
        let mut copy = BounceBuffer::new();
        while !source.is_memory()
            && let Some((page, phys)) = pages.take_dirty(0, u64::MAX)
        {
            copy.with(|copy| {
                // SAFETY: a frame that the cache keeps.
                unsafe { bytes::load(physical.to_virt(phys), copy) };
                written.write(source, page, copy);
            });
        }
        pages.clear(|phys| physical.put(phys));
    }
}

/// Zeroes the bytes beyond the end of the file in a page that is about to be written. A program's
/// stores there are not part of the file.
pub(super) fn clear_beyond(source: &dyn PageSource, page: u64, bytes: &mut [u8; PAGE_BYTES]) {
    let end = source.size();
    if end / PAGE_SIZE == page {
        bytes[(end % PAGE_SIZE) as usize..].fill(0);
    }
}

impl Inode {
    /// Returns the number of pages of which the file has a byte now.
    pub(crate) fn pages(&self) -> u64 {
        self.source().size().div_ceil(PAGE_SIZE)
    }
}
