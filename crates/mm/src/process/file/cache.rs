//! The pages of a file on one machine.
//!
//! The cache has one reference on each of its frames; mappings are counted beside it. A page is read into a frame without the lock, and put in its place with
//! it: if another was faster, the other's page is taken; if pages were cut off meanwhile (`cuts`), the page may be of yesterday's file, and is
//! read again. Pages are mapped with the lock held, so that whoever cuts pages off first takes them out here, and then finds in the tables all
//! that were mapped before.

use core::num::NonZeroUsize;

use lock_api::{Mutex, MutexGuard};
use maple_tree::MapleTree;
use samara_paging::{FrameAllocator, Kind, PhysMem, Physical, Reclaim};

use crate::flags::PAGE_SIZE;
use crate::process::bytes;
use crate::process::file::inode::{Inode, Kept};
use crate::process::file::source::{PAGE_BYTES, PageSource};
use crate::process::file::written::Written;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::process::signal::Fault;

/// The pages of a file on one machine.
pub(crate) struct Cache<P: Platform> {
    machine: Machine<P>,
    pages: Mutex<P::Mutex, CachedPages>,
}

/// The pages themselves: frames by the page's number, and whether each was written since it was last written back, or, if it is shared memory's, ever. A page
/// that an entry of any table lets programs write to counts as written.
pub(crate) struct CachedPages {
    /// The frame's number times 4, and what is known of it. Words are changed where they stand, which takes no memory.
    tree: MapleTree<u64, NonZeroUsize>,
    /// How often pages were taken out.
    cuts: u64,
}

/// The pages, locked, and the frame of one of them.
type Locked<'a, P> = (MutexGuard<'a, <P as Platform>::Mutex, CachedPages>, u64);

const DIRTY: usize = 1;
const HERE: usize = 2;
/// A page that has gone, but whose place could not be taken out for want of memory.
const GONE: NonZeroUsize = NonZeroUsize::MIN;

fn word(phys: u64, dirty: bool) -> NonZeroUsize {
    let number = (phys >> 12) as usize;
    NonZeroUsize::new(number << 2 | HERE | usize::from(dirty)).unwrap_or(GONE)
}

fn frame(word: NonZeroUsize) -> Option<u64> {
    let word = word.get();
    (word & HERE != 0).then_some(((word >> 2) as u64) << 12)
}

impl<P: Platform> Cache<P> {
    pub(super) fn new(machine: Machine<P>) -> Self {
        Cache {
            machine,
            pages: Mutex::new(CachedPages {
                tree: MapleTree::new(),
                cuts: 0,
            }),
        }
    }

    /// The pages, locked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, P::Mutex, CachedPages> {
        self.pages.lock()
    }

    /// The frame of a page, if it is here; and the pages, locked, so that it stays.
    ///
    /// # Errors
    /// [`Fault::ADRERR`] beyond the end.
    pub(crate) fn page_here(
        &self,
        inode: &Inode,
        page: u64,
    ) -> Result<Option<Locked<'_, P>>, Fault> {
        let pages = self.lock();
        if page >= inode.pages() {
            return Err(Fault::ADRERR);
        }
        let phys = pages.get(page);
        Ok(phys.map(|phys| (pages, phys)))
    }

    /// The frame of a page, which is read if it is not here; and the pages, locked, so that it stays.
    ///
    /// # Errors
    /// [`Fault::ADRERR`] beyond the end, and if it cannot be read; [`Fault::NoMemory`].
    pub(crate) fn page(&self, inode: &Inode, page: u64) -> Result<Locked<'_, P>, Fault> {
        let physical = self.machine.physical();
        loop {
            let pages = self.lock();
            if page >= inode.pages() {
                return Err(Fault::ADRERR);
            }
            if let Some(phys) = pages.get(page) {
                return Ok((pages, phys));
            }
            let cuts = pages.cuts();
            drop(pages);
            let phys = physical.alloc_page(Kind::File)?;
            let read = self.read(inode.source(), page, phys);
            let mut pages = self.lock();
            if read.is_ok() && pages.cuts() == cuts && pages.get(page).is_none() {
                if pages.put(page, phys).is_ok() {
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
        // SAFETY: a new frame, which nobody else knows.
        unsafe {
            bytes::clear_page(at);
            if !source.is_memory() {
                let into = at.cast::<[u8; PAGE_BYTES]>().as_mut();
                source.read_page(page, into).map_err(|_| Fault::ADRERR)?;
            }
        }
        Ok(())
    }

    /// Pages from `first` on, up to `end`, are the file's no more.
    pub(super) fn cut(&self, first: u64, end: u64) {
        let mut pages = self.lock();
        pages.cuts += 1;
        let mut next = first;
        while let Some((at, phys)) = pages.next(next, end) {
            next = at + 1;
            let _ = pages.tree.replace(at, GONE);
            self.machine.physical().put(phys);
        }
        if end > first {
            // What takes no memory has been done.
            let _ = pages.tree.erase_range(first..end);
        }
    }

    /// Zeroes what the last page of a file that ends at this byte holds beyond, if it is here. Where it is all that there is of the page (`keeps`), that counts as
    /// written.
    pub(super) fn clear_tail(&self, end: u64, keeps: bool) {
        let mut pages = self.lock();
        if keeps {
            pages.set_dirty(end / PAGE_SIZE);
        }
        pages.clear_tail(self.machine.physical(), end);
    }

    /// The same of a page that is about to be written back, unless it has been written again: the file may have become longer before that.
    pub(super) fn clear_end(&self, source: &dyn PageSource) {
        let pages = self.lock();
        let end = source.size();
        if !pages.is_dirty(end / PAGE_SIZE) {
            // Nobody may store to it without a fault, which needs the lock.
            pages.clear_tail(self.machine.physical(), end);
        }
    }
}

impl CachedPages {
    /// How often pages were taken out: as long as it is the same, those that were here are here.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// The frame of a page that is here.
    pub(crate) fn get(&self, page: u64) -> Option<u64> {
        frame(self.tree.get(page)?)
    }

    fn put(&mut self, page: u64, phys: u64) -> Result<(), Fault> {
        self.tree
            .store_range(page..=page, word(phys, false))
            .map_err(|_| Fault::NoMemory)
    }

    /// The first page that is here, of those in a range.
    fn next(&self, first: u64, end: u64) -> Option<(u64, u64)> {
        let mut next = first;
        while next < end {
            let (range, word) = self.tree.find(next..end)?;
            let page = *range.start();
            if let Some(phys) = frame(word) {
                return Some((page, phys));
            }
            next = (*range.end()).checked_add(1)?;
        }
        None
    }

    fn clear_tail<B, R>(&self, physical: &Physical<B, R>, end: u64)
    where
        B: FrameAllocator + PhysMem,
        R: Reclaim,
    {
        let from = (end % PAGE_SIZE) as usize;
        let Some(phys) = self.get(end / PAGE_SIZE).filter(|_| from > 0) else {
            return;
        };
        let at = physical.to_virt(phys);
        let zeroes = [0; 64];
        for start in (from..PAGE_BYTES).step_by(zeroes.len()) {
            let len = zeroes.len().min(PAGE_BYTES - start);
            // SAFETY: within the frame, which these pages have a reference on.
            unsafe { bytes::store(at.add(start), &zeroes[..len]) };
        }
    }

    /// Whether a page is here that was written.
    pub(crate) fn is_dirty(&self, page: u64) -> bool {
        let word = self.tree.get(page);
        word.is_some_and(|word| frame(word).is_some() && word.get() & DIRTY != 0)
    }

    /// A page that was not written leaves memory, if nobody has it: what it held can be read again, or was nothing.
    pub(crate) fn drop_clean<P: Platform>(&mut self, machine: &Machine<P>, page: u64) {
        let physical = machine.physical();
        let Some(phys) = self.get(page).filter(|_| !self.is_dirty(page)) else {
            return;
        };
        // Nobody maps it while these pages are locked, and a reference comes from a mapping.
        let info = physical.frames().info(phys);
        if info.is_some_and(|info| info.mappings == 0 && info.references == 1) {
            // Who is reading the page now may have begun before it was written.
            self.cuts += 1;
            let _ = self.tree.replace(page, GONE);
            physical.put(phys);
            // What takes no memory has been done.
            let _ = self.tree.erase_range(page..page + 1);
        }
    }

    /// A program may write to the page from now on.
    pub(crate) fn set_dirty(&mut self, page: u64) {
        self.set(page, true);
    }

    fn set(&mut self, page: u64, dirty: bool) {
        let before = self.tree.get(page);
        let now = before.and_then(frame).map(|phys| word(phys, dirty));
        if let Some(now) = now.filter(|_| now != before) {
            let _ = self.tree.replace(page, now);
        }
    }

    /// The first dirty page in a range is clean from now on; its frame.
    pub(super) fn take_dirty(&mut self, first: u64, end: u64) -> Option<(u64, u64)> {
        let mut next = first;
        while next < end {
            let (range, word) = self.tree.find(next..end)?;
            let page = *range.start();
            if let Some(phys) = frame(word)
                && word.get() & DIRTY != 0
            {
                self.set(page, false);
                return Some((page, phys));
            }
            next = (*range.end()).checked_add(1)?;
        }
        None
    }
}

impl<P: Platform> Kept for Cache<P> {
    fn give_up(&mut self, source: &dyn PageSource, written: &mut Written) {
        let physical = self.machine.physical();
        let pages = self.pages.get_mut();
        let mut copy = [0; PAGE_BYTES];
        while !source.is_memory()
            && let Some((page, phys)) = pages.take_dirty(0, u64::MAX)
        {
            // SAFETY: a frame that the cache keeps.
            unsafe { bytes::load(physical.to_virt(phys), &mut copy) };
            written.write(source, page, &mut copy);
        }
        for (_, word) in pages.tree.iter() {
            if let Some(phys) = frame(word) {
                physical.put(phys);
            }
        }
        pages.tree.clear();
    }
}

/// What a program has stored in the last page of a file beyond its end is no part of it.
pub(super) fn clear_beyond(source: &dyn PageSource, page: u64, bytes: &mut [u8; PAGE_BYTES]) {
    let end = source.size();
    if end / PAGE_SIZE == page {
        bytes[(end % PAGE_SIZE) as usize..].fill(0);
    }
}

impl Inode {
    /// Pages that the file has a part of now.
    pub(crate) fn pages(&self) -> u64 {
        self.source().size().div_ceil(PAGE_SIZE)
    }
}
