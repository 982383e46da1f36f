//! The state of pages as the tables and `/proc` show it.

use core::fmt;

use bitflags::bitflags;
use samara_paging::{Asid, Attrs, Context, Entry, Kind, PageInfo, PageSize, View};

use crate::abi::Prot;
use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::file::Inode;
use crate::process::handle::Process;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::vma::Area;

bitflags! {
    /// The flags of a page in `/proc/PID/pagemap`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PageStatus: u32 {
        /// The page is present.
        const PRESENT = 1;
        /// The page is a file's, or shared memory.
        const FILE = 2;
        /// One address space maps the page, however tables are shared. All parts of a huge page
        /// show the value of its first 4 KiB.
        const EXCLUSIVE = 4;
        /// The page was written since soft-dirty was last cleared.
        const SOFT_DIRTY = 8;
        /// The page is the shared zero page.
        const ZERO = 16;
        /// The page is a part of a page of 2 MiB or more.
        const HUGE = 32;
    }
}

impl<P: Platform> Process<P> {
    /// Returns the physical address of the root table, for CR3, TTBR0 or satp. It stays the same
    /// for the life of the process.
    ///
    /// When the process is dropped or [exits](Self::exit), its tables are freed without an
    /// invalidation of their pages. Every processor that has this root loaded must load another one
    /// before, of a process or the [kernel's](crate::process::Machine::kernel), and drop its
    /// translations under this one. It must do so at the latest in
    /// [`Invalidate::ended`](samara_paging::Invalidate::ended). A walk over all processes may hold
    /// the process for a moment. Then the tables live on, and the last holder calls `ended`.
    ///
    /// A process that is [executed](Self::exec) has another root than the process that called.
    pub fn root(&self) -> u64 {
        self.mm.tables.root()
    }

    /// Returns the number in its [`context`](Self::context): never 0, and unique among living
    /// processes.
    pub fn asid(&self) -> Asid {
        self.mm.asid()
    }

    /// Returns the set of processors that run the process, for the platform's context switch.
    /// [`Invalidate`](samara_paging::Invalidate) receives the same.
    ///
    /// ```
    /// use samara_mm::process::{Platform, Process};
    /// use std::sync::atomic::Ordering;
    ///
    /// /// Switches a processor from one process to another.
    /// fn switch<P: Platform>(from: &Process<P>, to: &Process<P>, cpu: u32) {
    ///     to.context().cpus().fetch_or(1 << cpu, Ordering::SeqCst);
    /// // Here the processor loads `to.root()`, and so leaves the other.
    ///     from.context().cpus().fetch_and(!(1 << cpu), Ordering::SeqCst);
    /// }
    /// ```
    #[inline]
    pub fn context(&self) -> &Context {
        self.mm.tables.context()
    }

    /// Returns the physical address of the byte at `addr`, and the accesses that would succeed
    /// without a fault, as the processor would find them now. `None` also for a present page
    /// without any permission. Takes no lock.
    pub fn translate(&self, addr: u64) -> Option<(u64, Prot)> {
        self.view(addr).translate(addr)
    }

    /// Returns a cursor for successive look-ups. The first one is at `near`.
    ///
    /// A look-up near the previous one reads one entry of a table. Each finds the state at that
    /// moment. Takes no lock. While the cursor lives, tables that calls remove are not freed, so it
    /// must not be kept for long.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot, abi::MapFlags};
    /// # fn pages<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let memory = MmapOptions::anonymous(0x4000).prot(Prot::READ | Prot::WRITE);
    /// let start = process.mmap(&memory.flags(MapFlags::POPULATE))?;
    /// let mut view = process.view(start);
    /// let there = (start..start + 0x8000).step_by(0x1000).filter(|&page| view.translate(page).is_some());
    /// assert_eq!(there.count(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn view(&self, near: u64) -> PageView<'_, P> {
        PageView {
            view: self.mm.tables.view(near),
            mm: &self.mm,
        }
    }

    /// Returns the flags of the page at `addr` in `/proc/PID/pagemap`. Takes no lock.
    pub fn page(&self, addr: u64) -> PageStatus {
        let Some(page) = self.mm.tables.page(addr) else {
            return PageStatus::empty();
        };
        let mut status = PageStatus::PRESENT;
        let mut add = |condition: bool, bit| {
            if condition {
                status |= bit;
            }
        };
        let (zero, huge) = (
            page.attrs.contains(Attrs::SPECIAL) && (page.zero || page.size != PageSize::Small),
            page.size != PageSize::Small,
        );
        add(zero, PageStatus::ZERO);
        add(
            // Linux sets it for the huge zero page, and not for the small one.
            zero && huge || page.frame.is_some_and(|frame| frame.kind == Kind::File),
            PageStatus::FILE,
        );
        add(self.is_shown_exclusive(addr, &page), PageStatus::EXCLUSIVE);
        add(
            page.attrs.contains(Attrs::SOFT_DIRTY),
            PageStatus::SOFT_DIRTY,
        );
        add(huge, PageStatus::HUGE);
        status
    }

    /// Returns `true` if pagemap shows the page at `addr` as mapped exclusively. Linux looks only
    /// at the first frame of what one entry maps. If a child of a fork has copied another part,
    /// this process has that part alone, but pagemap does not show it.
    pub(crate) fn is_shown_exclusive(&self, addr: u64, page: &PageInfo) -> bool {
        match page.size {
            PageSize::Small => page.exclusive(),
            size => {
                let first = self.mm.tables.page(addr & !(size.bytes() - 1));
                first.is_some_and(|first| first.exclusive())
            }
        }
    }

    /// Performs `mincore(2)`: writes 1 to `into` for each page of a range (in bytes) that is mapped
    /// or cached, and 0 otherwise.
    ///
    /// # Errors
    /// Linux's. `ENOMEM` at the first hole, after the pages before it were written. `EFAULT` if
    /// `into` has fewer bytes than there are pages.
    pub fn mincore(&self, addr: u64, len: u64, into: &mut [u8]) -> Result<(), Errno> {
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let space = self.mm.space.read();
        if addr
            .checked_add(len)
            .is_none_or(|end| end > space.config.task_size)
        {
            return Err(Errno::ENOMEM);
        }
        let into = usize::try_from(len.div_ceil(PAGE_SIZE))
            .ok()
            .and_then(|pages| into.get_mut(..pages))
            .ok_or(Errno::EFAULT)?;
        for (i, byte) in into.iter_mut().enumerate() {
            let page = addr + i as u64 * PAGE_SIZE;
            let vma = space.areas.at(page).ok_or(Errno::ENOMEM)?.vma;
            let cached = || {
                let cache = Inode::of(vma)?.known(&self.mm.machine)?;
                cache.lock().get(vma.page_offset(page))
            };
            let present = matches!(self.mm.tables.entry(page), Entry::Page { .. });
            *byte = u8::from(present || cached().is_some());
        }
        Ok(())
    }
}

impl<P: Platform> Mm<P> {
    /// Returns `true` if a page was written, as Linux shows it. A private page counts by this
    /// entry, a page of a file or of shared memory by any entry.
    pub(crate) fn is_dirty(&self, area: Option<Area<'_>>, addr: u64, page: &PageInfo) -> bool {
        if page.attrs.contains(Attrs::DIRTY) {
            return true;
        }
        let of_file = page.frame.is_some_and(|frame| frame.kind == Kind::File);
        let Some(vma) = area.map(|area| area.vma).filter(|_| of_file) else {
            return false;
        };
        let cache = Inode::of(vma).and_then(|inode| inode.known(&self.machine));
        cache.is_some_and(|cache| cache.lock().is_dirty(vma.page_offset(addr)))
    }
}

/// Successive look-ups in the tables of a process: see [`Process::view`].
#[must_use]
pub struct PageView<'a, P: Platform> {
    view: View<'a, P::Format, Machine<P>>,
    mm: &'a Mm<P>,
}

impl<P: Platform> PageView<'_, P> {
    /// As [`Process::translate`].
    #[inline]
    pub fn translate(&mut self, addr: u64) -> Option<(u64, Prot)> {
        let (phys, mut attrs) = self.view.translate(addr)?;
        // The entry allows reading, but the key of execute-only VMAs forbids it.
        if attrs.pkey() != 0 && attrs.pkey() == self.mm.execute_only_key() {
            attrs -= Attrs::READ | Attrs::WRITE;
        }
        let mut prot = Prot::empty();
        for (attr, bit) in [
            (Attrs::READ, Prot::READ),
            (Attrs::WRITE, Prot::WRITE),
            (Attrs::EXEC, Prot::EXEC),
        ] {
            if attrs.contains(attr) {
                prot |= bit;
            }
        }
        Some((phys, prot))
    }
}

impl<P: Platform> fmt::Debug for PageView<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt(f)
    }
}
