//! A reference to the page-table entry of one small page, found once for all steps of a fault.
//!
//! A fault reads the entry, and then maps, copies or makes writable. Separate calls would each
//! enter a section and descend from the root; a `PteRef` does both once. The entry may change
//! between two steps: each step locks the table and reads the entry again.

use core::slice;

use crate::cursor::{Cursor, FoundTable, Stop, may_be_in_tlb};
use crate::deferred_free::DeferredFree;
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::map::Source;
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::share::release_page;
use crate::space::PageTables;
use crate::table::LockedTable;
use crate::walk::mask_write;

/// A reference to the page-table entry of one page: see [`PageTables::pte`].
///
/// While it lives, tables that other threads remove from the tree are not freed, as with a
/// [`View`](crate::View).
#[must_use]
pub struct PteRef<'a, F: Format, M: Memory> {
    /// The slow path: creates tables, unshares them, and handles huge pages.
    cursor: Cursor<'a, F, M>,
    addr: u64,
    tlb: &'a dyn Invalidate,
    /// The last-level table, if it was found and is not shared.
    found: Option<FoundTable<'a>>,
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Returns a reference to the entry for the page at `addr`, to read and then change it in one
    /// [section](crate::Reclaim::Section) and with one descent. Its calls pass invalidations to
    /// `tlb`.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Entry, Grace, Kind, PageTables, Physical, Source, format::X86_64};
    /// # let memory = Physical::new(Arena::on_heap(64)?, Grace::new(), 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let mut pte = space.pte(0x1000, &());
    /// if pte.entry() == Entry::Empty {
    ///     let page = memory.alloc_page(Kind::Anon)?;
    ///     pte.map(Source::Owned(page), Attrs::READ | Attrs::USER)?;
    ///     assert!(pte.reuse_exclusive(page)?);
    /// }
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    #[inline]
    pub fn pte<'a>(&'a self, addr: u64, tlb: &'a dyn Invalidate) -> PteRef<'a, F, M> {
        PteRef {
            cursor: self.cursor(addr),
            addr,
            tlb,
            found: None,
        }
    }
}

impl<'a, F: Format, M: Memory> PteRef<'a, F, M> {
    /// Returns the entry, as [`PageTables::entry`] does.
    #[inline(always)]
    pub fn entry(&mut self) -> Entry {
        if !self.cursor.space.covers(self.addr) {
            return Entry::Empty;
        }
        let space = self.cursor.space;
        loop {
            let before = space.unlink_seq();
            let (raw, level, guarded) = match self.find() {
                Ok(found) => {
                    let shared = F::is_shared(found.parent_entry);
                    let raw = found.table.read(index(self.addr, 0));
                    self.found = (!shared).then_some(found);
                    (raw, 0, F::TABLES_FORBID_WRITES && shared)
                }
                Err(Stop { level, raw }) => (raw, level, false),
            };
            if space.unlink_seq() == before {
                return mask_write(F::decode(raw, level), guarded);
            }
        }
    }

    /// Returns the current last-level table, and discards the earlier result.
    #[inline(always)]
    fn find(&mut self) -> Result<FoundTable<'a>, Stop> {
        self.found = None;
        self.cursor.find_table(self.addr)
    }

    /// Locks the last-level table if it exists and is not shared. It then stays in the tree until
    /// it is unlocked.
    #[inline(always)]
    fn lock(&mut self) -> Option<LockedTable<'a>> {
        if self.found.is_none() {
            let found = self.find().ok();
            self.found = found.filter(|found| !F::is_shared(found.parent_entry));
        }
        // The entry above still marks the table as not shared. A change of the mark needs the
        // table's lock as well.
        let locked = self.found.as_ref()?.lock();
        if locked.is_none() {
            self.found = None;
        }
        locked
    }

    /// Maps a small page, as [`PageTables::map`] does.
    ///
    /// # Errors
    ///
    /// As for that function. Nothing has changed then.
    #[inline]
    pub fn map(&mut self, source: Source, attrs: Attrs) -> Result<(), Error> {
        self.aligned()?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        match self.lock() {
            Some(table) => self.map_in(table, source, attrs),
            None => self.map_slow(source, attrs),
        }
    }

    #[inline(always)]
    fn map_in(
        &self,
        mut table: LockedTable<'_>,
        source: Source,
        attrs: Attrs,
    ) -> Result<(), Error> {
        let slot = index(self.addr, 0);
        if table.load(slot) != 0 {
            return Err(Error::Exists);
        }
        source.count(self.cursor.memory().frames())?;
        table.store(slot, F::leaf(source.phys(), source.attrs(attrs), 0));
        table.add_used(1);
        drop(table);
        self.notify_mapped(attrs);
        Ok(())
    }

    /// Does the same if a table must be created or unshared first.
    #[cold]
    fn map_slow(&mut self, source: Source, attrs: Attrs) -> Result<(), Error> {
        let space = self.cursor.space;
        let mut gather = space.gather(self.tlb);
        let mut prealloc = PreallocTables::none(space.physical());
        let locked = self
            .cursor
            .lock_unshared(self.addr, &mut prealloc, &mut gather);
        let result = locked.and_then(|table| self.map_in(table, source, attrs));
        if result.is_err() {
            // Frees tables created in vain.
            self.cursor.prune(self.addr, &mut gather);
        }
        self.finish(&mut gather);
        result
    }

    /// Replaces the page on the frame `old`. The mapping of `old` is given up after the TLB
    /// invalidation.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on the frame `old` is mapped there (any more);
    /// [`Error::NoMemory`], [`Error::Misaligned`], [`Error::TooMany`]. Nothing has changed then.
    pub fn replace(&mut self, old: u64, source: Source, attrs: Attrs) -> Result<(), Error> {
        self.aligned()?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let mut dead = DeferredFree::new();
        let result = match self.lock() {
            Some(table) => {
                self.check_page(&table, old)?;
                self.replace_in(table, source, attrs, &mut dead)
            }
            None => return self.replace_slow(old, source, attrs),
        };
        if !dead.is_empty() {
            self.cursor.memory().free_deferred(&mut dead);
        }
        result
    }

    /// Returns the entry if it is a small page on this frame.
    #[inline(always)]
    fn check_page(&self, table: &LockedTable<'_>, phys: u64) -> Result<u64, Error> {
        let raw = table.load(index(self.addr, 0));
        (tag::is_page(raw) && F::phys(raw) == phys)
            .then_some(raw)
            .ok_or(Error::NotMapped)
    }

    #[inline(always)]
    fn replace_in(
        &self,
        table: LockedTable<'_>,
        source: Source,
        attrs: Attrs,
        dead: &mut DeferredFree,
    ) -> Result<(), Error> {
        let (addr, memory) = (self.addr, self.cursor.memory());
        let slot = index(addr, 0);
        source.count(memory.frames())?;
        let was = table.update::<F>(slot, table.load(slot), without_access::<F>);
        if may_be_in_tlb(was) {
            // No processor may use the old frame while another uses the new one.
            let (context, range) = (self.cursor.space.context(), addr..addr + PAGE_SIZE);
            self.tlb
                .invalidate(context, slice::from_ref(&range), Changed::PAGES);
        }
        table.store(slot, F::leaf(source.phys(), source.attrs(attrs), 0));
        self.notify_mapped(attrs);
        release_page::<F, M>(memory, memory.frames().counts(), was, dead);
        Ok(())
    }

    /// Does the same if the table may be shared, or a huge page is there.
    #[cold]
    fn replace_slow(&mut self, old: u64, source: Source, attrs: Attrs) -> Result<(), Error> {
        let mut gather = self.cursor.space.gather(self.tlb);
        let mut prealloc = PreallocTables::none(self.cursor.memory());
        let locked = (self.cursor).lock_page(self.addr, old, &mut prealloc, &mut gather);
        let result = match locked {
            Ok((table, 0)) => self.replace_in(table, source, attrs, gather.deferred()),
            Ok(_) => Err(Error::NotMapped),
            Err(error) => Err(error),
        };
        self.finish(&mut gather);
        result
    }

    /// Makes an exclusive page of private memory writable: copy-on-write without a copy. Adds
    /// [`Attrs::WRITE`], [`Attrs::DIRTY`], [`Attrs::ACCESSED`] and [`Attrs::SOFT_DIRTY`]. `phys` is
    /// the first frame of the entry, which may be a huge page's. Returns `false` if one of its
    /// frames has other mappings or references, or is not private memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no page on this frame is mapped there (any more);
    /// [`Error::NoMemory`], [`Error::Misaligned`].
    #[inline]
    pub fn reuse_exclusive(&mut self, phys: u64) -> Result<bool, Error> {
        self.aligned()?;
        match self.lock() {
            Some(table) => {
                let raw = self.check_page(&table, phys)?;
                Ok(self.reuse_in(&table, raw))
            }
            None => self.reuse_slow(phys),
        }
    }

    /// Returns `true` if [`reuse_exclusive`](Self::reuse_exclusive) would probably succeed for this
    /// frame. It reads the count without a lock, so that the answer is only a hint.
    #[inline]
    pub fn seems_exclusive(&self, phys: u64) -> bool {
        let frames = self.cursor.memory().frames();
        frames.contains(phys) && frames.is_exclusive_anon(phys)
    }

    /// Makes an exclusive small page of private memory writable.
    #[inline(always)]
    fn reuse_in(&self, table: &LockedTable<'_>, raw: u64) -> bool {
        let own = !F::is_special(raw)
            && self
                .cursor
                .memory()
                .frames()
                .is_exclusive_anon(F::phys(raw));
        if own {
            table.update::<F>(index(self.addr, 0), raw, |raw| F::after_write(raw, 0));
            if !may_be_in_tlb(raw) {
                self.notify_mapped(Attrs::WRITE | F::attrs(raw));
            }
            // A processor with a read-only TLB entry takes a fault and finds the page writable: no
            // invalidation is needed.
        }
        own
    }

    /// Replaces the small page on the frame `old` by a copy: copy-on-write with a copy. `copy`
    /// writes the bytes to the frame `new`, on which the caller has a reference; the reference
    /// becomes the mapping. The mapping of `old` is given up after the TLB invalidation. Returns
    /// `false` if the page has become exclusive to this address space since the caller looked. The
    /// page is then writable, as after [`reuse_exclusive`](Self::reuse_exclusive), and `new` still
    /// belongs to the caller.
    ///
    /// `copy` runs under the table's lock, so that `old` needs no reference. It must not call these
    /// tables or wait. Its argument is `true` if `old` is private memory, which no thread writes to
    /// while it is not writable here.
    ///
    /// # Errors
    ///
    /// As for [`replace`](Self::replace). Nothing has changed then.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, ForkFilter, Error, Exclusive, Kind, Mapping, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let parent = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let rw = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    /// parent.map(0x1000, PageSize::Small, Source::Owned(memory.alloc_page(Kind::Anon)?), rw, &())?;
    /// let child = PageTables::<X86_64, _>::new(&memory, 2)?;
    /// parent.copy_range(&child, 0..0x10000, Mapping::Private, ForkFilter::All, &())?;
    ///
    /// // The child writes: the page is not its alone, so it gets a copy.
    /// let old = child.page(0x1000).unwrap().phys;
    /// let mut pte = child.pte(0x1000, &());
    /// assert!(!pte.reuse_exclusive(old)?);
    /// let new = memory.alloc_page(Kind::Anon)?;
    /// let copy = |_still| {
    ///     // SAFETY: two frames, one that nobody may write to, one not yet known to anybody.
    ///     unsafe { memory.to_virt(new).copy_from(memory.to_virt(old), 4096) };
    /// };
    /// match pte.copy_on_write(old, new, rw, copy) {
    ///     Ok(true) => {}
    ///     // Another has given the page up, or another thread was faster.
    ///     Ok(false) | Err(Error::NotMapped) => memory.put(new),
    ///     Err(error) => return Err(error),
    /// }
    ///
    /// // The parent writes: nobody else has its page any more.
    /// assert!(parent.pte(0x1000, &()).reuse_exclusive(old)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn copy_on_write(
        &mut self,
        old: u64,
        new: u64,
        attrs: Attrs,
        copy: impl FnOnce(bool),
    ) -> Result<bool, Error> {
        self.aligned()?;
        if !new.is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let table = match self.lock() {
            Some(table) => table,
            None => {
                if self.reuse_slow(old)? {
                    return Ok(false);
                }
                // The table is no longer shared. If it was shared again before the lock, or a huge
                // page is there, the caller retries.
                self.lock().ok_or(Error::NotMapped)?
            }
        };
        let raw = self.check_page(&table, old)?;
        // Checked again: a page pinned for a device since then must stay.
        if self.reuse_in(&table, raw) {
            return Ok(false);
        }
        copy(!F::is_special(raw) && self.cursor.memory().frames().is_anon(old));
        let mut dead = DeferredFree::new();
        let result = self.replace_in(table, Source::Owned(new), attrs, &mut dead);
        if !dead.is_empty() {
            self.cursor.memory().free_deferred(&mut dead);
        }
        result.map(|()| true)
    }

    /// Does the same as [`reuse_exclusive`](Self::reuse_exclusive) if the table may be shared, or a
    /// huge page is there.
    #[cold]
    fn reuse_slow(&mut self, phys: u64) -> Result<bool, Error> {
        let mut gather = self.cursor.space.gather(self.tlb);
        let result = self.reuse_slow_in(phys, &mut gather);
        self.finish(&mut gather);
        result
    }

    fn reuse_slow_in(&mut self, phys: u64, gather: &mut Gather<'a, F, M>) -> Result<bool, Error> {
        let addr = self.addr;
        let mut prealloc = PreallocTables::none(self.cursor.memory());
        let (mut table, mut level) = self.cursor.lock_page(addr, phys, &mut prealloc, gather)?;
        // After a table was copied, its user count drops only after the TLB invalidation. Until
        // then the frame has two mappings.
        if gather.has_shared() {
            drop(table);
            self.cursor.outside_section(|| gather.finish());
            (table, level) = self.cursor.lock_page(addr, phys, &mut prealloc, gather)?;
        }
        let slot = index(addr, level);
        let raw = table.load(slot);
        if level == 0 {
            return Ok(self.reuse_in(&table, raw));
        }
        let frames = self.cursor.memory().frames();
        let order = PageSize::of(level).order();
        if F::is_special(raw) || !frames.is_anon(phys) || !frames.all_exclusive(phys, order) {
            return Ok(false);
        }
        table.update::<F>(slot, raw, |raw| F::after_write(raw, level));
        if !may_be_in_tlb(raw) {
            let start = addr & !(span(level) - 1);
            gather.notify_mapped(start, next(addr, level), Attrs::WRITE | F::attrs(raw));
        }
        Ok(true)
    }

    /// Runs `work` outside the section, so that grace periods do not wait for it. Earlier results
    /// are invalid afterwards.
    pub fn outside_section<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.found = None;
        self.cursor.outside_section(work)
    }

    #[inline]
    fn aligned(&self) -> Result<(), Error> {
        // The check of `PageTables::check_range` for the range up to the next page, which must
        // exist.
        let last = PAGE_SIZE.wrapping_neg();
        let page = self.addr.is_multiple_of(PAGE_SIZE) && self.addr != last;
        if page && self.cursor.space.covers(self.addr) {
            return Ok(());
        }
        Err(self.cursor.space.range_error(self.addr, PAGE_SIZE))
    }

    /// Notifies the processors that the page has become accessible.
    #[inline(always)]
    fn notify_mapped(&self, attrs: Attrs) {
        let space = self.cursor.space;
        space.notify_mapped(self.tlb, self.addr, self.addr + PAGE_SIZE, attrs);
    }

    /// Leaves the section before retired tables wait for a grace period.
    #[inline]
    fn finish(&mut self, gather: &mut Gather<'a, F, M>) {
        self.found = None;
        if gather.has_tables() {
            self.cursor.outside_section(|| gather.finish());
        }
    }
}

/// Returns the small page without access, for the time until TLBs are invalidated.
pub(crate) fn without_access<F: Format>(raw: u64) -> u64 {
    F::leaf(F::phys(raw), F::attrs(raw) - Attrs::ACCESS, 0)
}
