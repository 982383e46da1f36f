//! The page-table part of a fault, for one page by address. `samara-mm` has the other two parts: its
//! `process/fault/` decides what a fault does, and its `space/fault.rs` whether a VMA permits the
//! access.
//!
//! It has references on frames for their users (`get_page`, `pin_page`), accesses as a processor
//! makes them (`access`, `refill`), and added attributes (`add_attrs`). The steps that map and copy
//! are in [`PteRef`](crate::PteRef).
//!
//! A fault has read the entry without a lock. Each of these calls locks the page's table and checks
//! that the entry is unchanged.

use crate::cursor::{Cursor, Stop, may_be_in_tlb};
use crate::entry::{Attrs, Entry, PAGE_SIZE, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Gather, Invalidate};
use crate::phys::{FrameAllocator, Memory, PhysMem, Physical};
use crate::prealloc::PreallocTables;
use crate::reclaim::Reclaim;
use crate::space::PageTables;
use crate::table::LockedTable;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Adds attributes to a page, if it is still on the frame `phys`, the first frame of its entry.
    /// This ends a write fault on a shared page after its file was notified. It also sets accessed
    /// and dirty bits where processors leave them to software.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no page on this frame is mapped there (any more);
    /// [`Error::NoMemory`], [`Error::Misaligned`].
    ///
    /// An example is at [`protect_with`](Self::protect_with).
    pub fn add_attrs(
        &self,
        addr: u64,
        phys: u64,
        add: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(self.physical());
        let mut cursor = self.cursor(addr);
        let (table, level) = cursor.lock_page(addr, phys, &mut prealloc, &mut gather)?;
        let slot = index(addr, level);
        let raw = table.load(slot);
        let was = table.update::<F>(slot, raw, |raw| F::leaf(phys, F::attrs(raw) | add, level));
        let attrs = F::attrs(was) | add;
        if !may_be_in_tlb(was) || (add - F::attrs(was)).contains(Attrs::EXEC) {
            gather.notify_mapped(addr & !(span(level) - 1), next(addr, level), attrs);
        }
        // No invalidation: a TLB entry with fewer rights causes a fault, which finds the new ones.
        Ok(())
    }

    /// Takes a reference on the 4 KiB frame at an address, if a processor could make the accesses
    /// in `need` there without a fault. The reference keeps the frame, not the mapping.
    /// [`put`](FrameRef::put) gives it up. This is Linux's `FOLL_GET`.
    ///
    /// While it lasts, [`PteRef::reuse_exclusive`](crate::PteRef::reuse_exclusive) returns `false`
    /// for this frame. With `need` empty, the page may be one without access.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the access would fault; [`Error::TooMany`] if the frame has 1,023
    /// references.
    pub fn get_page(&self, addr: u64, need: Attrs) -> Result<FrameRef, Error> {
        let mut cursor = self.cursor(addr);
        if need.is_empty() && self.covers(addr) {
            let found = cursor.lock_leaf(addr).map_err(|_| Error::NotMapped)?;
            let (_table, level, raw) = found;
            let phys = F::phys(raw) + (addr & (span(level) - 1));
            return FrameRef::of(
                self.physical(),
                phys & !(PAGE_SIZE - 1),
                !F::is_special(raw),
            );
        }
        let found = cursor.lock_for(addr, need);
        let (_table, _, raw, phys) = found.map_err(|_| Error::NotMapped)?;
        if !F::is_special(raw) {
            self.physical().frames().unpin(phys);
        }
        FrameRef::of(
            self.physical(),
            phys & !(PAGE_SIZE - 1),
            !F::is_special(raw),
        )
    }

    /// Takes a reference for a device, which accesses the memory itself while programs run: Linux's
    /// `FOLL_PIN`. It does the same as [`get_page`](Self::get_page), and private memory also stays
    /// exclusive to this address space until the reference is put. A write through the mapping goes
    /// to the same frame, and a fork ([`Mapping::Private`](crate::Mapping::Private)) gives the
    /// child a copy. With `need` empty, the page may be one without access.
    ///
    /// Tables with pinned pages must not be [shared](Self::share_range).
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the access would fault; [`Error::Exists`] if it is private memory
    /// that is not exclusive, or whose table is shared; [`Error::TooMany`].
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, ForkFilter, Exclusive, Kind, Mapping, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let parent = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let rw = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    /// parent.map(0x1000, PageSize::Small, Source::Owned(memory.alloc_page(Kind::Anon)?), rw, &())?;
    /// let pin = parent.pin_page(0x1000, Attrs::WRITE)?;
    ///
    /// let child = PageTables::<X86_64, _>::new(&memory, 2)?;
    /// parent.copy_range(&child, 0..0x10000, Mapping::Private, ForkFilter::All, &())?;
    /// let (mine, theirs) = (parent.page(0x1000).unwrap(), child.page(0x1000).unwrap());
    /// assert_eq!(mine.phys, pin.phys());
    /// assert!(mine.attrs.contains(Attrs::WRITE) && theirs.phys != pin.phys());
    /// pin.put(&memory);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn pin_page(&self, addr: u64, need: Attrs) -> Result<FrameRef, Error> {
        if !self.covers(addr) {
            return Err(Error::NotMapped);
        }
        let memory = self.physical();
        let mut cursor = self.cursor(addr);
        let found = cursor.lock_leaf(addr).map_err(|_| Error::NotMapped)?;
        let (table, level, raw) = found;
        let mut attrs = F::attrs(raw);
        if cursor.shared {
            attrs.remove(Attrs::WRITE);
        }
        if !attrs.contains(need) || !need.is_empty() && !attrs.intersects(Attrs::ACCESS) {
            return Err(Error::NotMapped);
        }
        let phys = (F::phys(raw) + (addr & (span(level) - 1))) & !(PAGE_SIZE - 1);
        let frames = memory.frames();
        let pin = if F::is_special(raw) || !frames.is_anon(phys) {
            FrameRef::of(memory, phys, !F::is_special(raw))?
        } else if !cursor.shared
            // A writable page of private memory has no other mapping, whatever its references.
            && (frames.is_exclusive(phys) || F::is_writable(raw))
        {
            frames.pin(phys)?;
            FrameRef {
                phys,
                counted: true,
            }
        } else {
            return Err(Error::Exists);
        };
        drop(table);
        Ok(pin)
    }

    /// Makes an access as a processor does. Checks that the accesses in `need` are permitted at
    /// `addr`, sets the accessed bit, and with [`Attrs::WRITE`] the dirty bit. Then calls `access`
    /// with the physical address of the byte, and returns its result. Meant for copies to and from
    /// a program, and for atomic instructions on its memory.
    ///
    /// `access` runs under the table's lock, so that the page and its attributes do not change
    /// until it returns. It must not call these tables, and must stay within the 4 KiB page.
    ///
    /// # Errors
    ///
    /// The entry that does not permit the access: the caller handles the fault and tries again.
    ///
    /// ```
    /// # use core::sync::atomic::{AtomicU32, Ordering};
    /// # use samara_paging::{Arena, Attrs, Entry, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let futex = |phys| {
    ///     // SAFETY: a word of a page of the program's, which all use by atomic instructions.
    ///     unsafe { memory.to_virt(phys).cast::<AtomicU32>().as_ref() }.fetch_add(1, Ordering::SeqCst)
    /// };
    /// assert_eq!(space.access(0x1008, Attrs::WRITE, futex), Err(Entry::Empty));
    ///
    /// let page = memory.alloc_page(Kind::Anon)?;
    /// // SAFETY: nobody else knows the frame.
    /// unsafe { memory.to_virt(page).write_bytes(0, 4096) };
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    /// space.map(0x1000, PageSize::Small, Source::Owned(page), attrs, &())?;
    /// assert_eq!(space.access(0x1008, Attrs::WRITE, futex), Ok(0));
    /// let (_, attrs) = space.translate(0x1008).unwrap();
    /// assert!(attrs.contains(Attrs::ACCESSED | Attrs::DIRTY));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn access<T>(
        &self,
        addr: u64,
        need: Attrs,
        access: impl FnOnce(u64) -> T,
    ) -> Result<T, Entry> {
        self.mark_used(addr, need, |phys, _| access(phys))
    }

    /// Fills a software TLB: checks and marks the page as [`access`](Self::access) does, and
    /// returns the physical address of the byte and the entry's attributes. With [`Attrs::DIRTY`],
    /// later stores need no marking.
    ///
    /// A caller that keeps the result must discard it when [`Invalidate::invalidate`] is called for
    /// the address. Every later change that matters is reported there. Takes the lock of the
    /// last-level table.
    ///
    /// # Errors
    ///
    /// As for [`access`](Self::access).
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Entry, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let page = memory.alloc_page(Kind::Anon)?;
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    /// space.map(0x1000, PageSize::Small, Source::Owned(page), attrs, &())?;
    ///
    /// let (phys, attrs) = space.refill(0x1008, Attrs::READ).map_err(|_| "a fault")?;
    /// assert_eq!(phys, page + 8);
    /// assert!(attrs.contains(Attrs::WRITE | Attrs::ACCESSED) && !attrs.contains(Attrs::DIRTY));
    /// let (_, attrs) = space.refill(0x1008, Attrs::WRITE).map_err(|_| "a fault")?;
    /// assert!(attrs.contains(Attrs::DIRTY));
    /// assert_eq!(space.refill(0x2000, Attrs::READ), Err(Entry::Empty));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refill(&self, addr: u64, need: Attrs) -> Result<(u64, Attrs), Entry> {
        self.mark_used(addr, need, |phys, attrs| (phys, attrs))
    }

    /// Marks the entry as used, and calls `access` under the table's lock with the byte's physical
    /// address and the entry's attributes.
    #[inline(always)]
    fn mark_used<T>(
        &self,
        addr: u64,
        need: Attrs,
        access: impl FnOnce(u64, Attrs) -> T,
    ) -> Result<T, Entry> {
        let mut cursor = self.cursor(addr);
        let (table, level, raw, phys) = cursor.lock_for(addr, need)?;
        let mut add = Attrs::ACCESSED;
        if need.contains(Attrs::WRITE) {
            add |= Attrs::DIRTY;
        }
        let mut attrs = F::attrs(raw);
        if !attrs.contains(add) {
            table.update::<F>(index(addr, level), raw, |raw| {
                F::leaf(F::phys(raw), F::attrs(raw) | add, level)
            });
            attrs |= add;
        }
        // A store through a shared table is a fault, whatever the entry says.
        if cursor.shared {
            attrs.remove(Attrs::WRITE);
        }
        Ok(access(phys, attrs))
    }
}

/// A reference on a mapped frame: see [`PageTables::get_page`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the frame is kept until the reference is put"]
pub struct FrameRef {
    phys: u64,
    counted: bool,
}

impl FrameRef {
    /// Takes a reference on a mapped frame, in a table whose lock is held.
    #[inline]
    pub(crate) fn of<B: FrameAllocator + PhysMem, R: Reclaim>(
        memory: &Physical<B, R>,
        phys: u64,
        counted: bool,
    ) -> Result<Self, Error> {
        if counted {
            memory.get(phys)?;
        }
        Ok(FrameRef { phys, counted })
    }

    /// Returns the frame.
    pub fn phys(&self) -> u64 {
        self.phys
    }

    /// Returns `true` if the frame is counted. The zero page and device memory are not.
    pub fn counted(&self) -> bool {
        self.counted
    }

    /// Gives up the reference.
    pub fn put<B: FrameAllocator + PhysMem, R: Reclaim>(self, memory: &Physical<B, R>) {
        if self.counted {
            memory.put(self.phys);
        }
    }
}

impl<'a, F: Format, M: Memory> Cursor<'a, F, M> {
    /// Locks the table of the page on this frame after unsharing it. Returns the table and its
    /// level.
    #[inline]
    pub(crate) fn lock_page(
        &mut self,
        addr: u64,
        phys: u64,
        prealloc: &mut PreallocTables<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<(LockedTable<'a>, usize), Error> {
        loop {
            let (table, level, raw) = self.lock_leaf(addr).map_err(|_| Error::NotMapped)?;
            if F::phys(raw) != phys {
                return Err(Error::NotMapped);
            }
            if !self.shared {
                return Ok((table, level));
            }
            drop(table);
            self.unshare(addr, prealloc, gather)?;
        }
    }

    /// Locks the table of the page of any size at an address. Returns the table, its level and the
    /// entry, or the entry that is there instead of a page.
    #[inline]
    fn lock_leaf(&mut self, addr: u64) -> Result<(LockedTable<'a>, usize, u64), Entry> {
        let mut level = 0;
        loop {
            match self.lock(addr, level) {
                Ok(table) => {
                    let raw = table.load(index(addr, level));
                    if tag::is_page(raw) && !(level > 0 && F::is_table(raw)) {
                        return Ok((table, level, raw));
                    }
                    if level == 0 {
                        return Err(F::decode(raw, 0));
                    }
                    // A huge page was here and is gone.
                    level = 0;
                }
                Err(Stop { raw: 0, .. }) => return Err(Entry::Empty),
                Err(stop) => level = stop.level,
            }
        }
    }

    /// Locks the table of a page if a processor could make the accesses in `need` there. Returns
    /// the table, its level, the entry, and the physical address of the byte.
    pub(crate) fn lock_for(
        &mut self,
        addr: u64,
        need: Attrs,
    ) -> Result<(LockedTable<'a>, usize, u64, u64), Entry> {
        if !self.space.covers(addr) {
            return Err(Entry::Empty);
        }
        let (table, level, raw) = self.lock_leaf(addr)?;
        let mut entry = F::decode(raw, level);
        if let Entry::Page { phys, attrs, size } = &mut entry {
            if self.shared {
                attrs.remove(Attrs::WRITE);
            }
            if attrs.intersects(Attrs::ACCESS) && attrs.contains(need) {
                return Ok((table, level, raw, *phys + (addr & (size.bytes() - 1))));
            }
        }
        Err(entry)
    }
}
