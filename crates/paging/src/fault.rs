//! One page: what a fault finds, and what it does there.
//!
//! A fault has seen something without a lock. Each of these calls locks the page's table, and looks whether that is still so.

use crate::cursor::{Cursor, Stop};
use crate::entry::{Attrs, Entry, PAGE_SIZE, index, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Gather, Invalidate};
use crate::map::Source;
use crate::phys::{FrameAllocator, Memory, PhysMem, Physical};
use crate::reclaim::Reclaim;
use crate::reserve::Reserve;
use crate::space::PageTables;
use crate::table::Locked;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Puts another frame in the place of `old`, the second half of copy-on-write: the mapping of `old` goes once the processors
    /// have been told.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on the frame `old` is mapped there (any more); [`Error::NoMemory`], [`Error::Misaligned`],
    /// [`Error::TooMany`]. Nothing has changed then.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Copy, Error, Exclusive, Kind, Mapping, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let parent = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let rw = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    /// parent.map(0x1000, PageSize::Small, Source::Owned(memory.alloc_page(Kind::Anon)?), rw, &())?;
    /// let child = PageTables::<X86_64, _>::new(&memory, 2)?;
    /// parent.copy_range(&child, 0..0x10000, Mapping::Private, Copy::All, &())?;
    ///
    /// // The child writes: the page is not its alone, so it gets a copy.
    /// let old = child.page(0x1000).unwrap().phys;
    /// assert!(!child.write_alone(0x1000, old, &())?);
    /// let held = child.pin(0x1000, Attrs::READ)?; // so that the old page is not freed while it is copied
    /// let new = memory.alloc_page(Kind::Anon)?;
    /// // SAFETY: two frames, one held and not written to while it is shared, one not yet known to anybody.
    /// unsafe { memory.to_virt(new).copy_from(memory.to_virt(old), 4096) };
    /// match child.exchange(0x1000, old, Source::Owned(new), rw, &()) {
    ///     Ok(()) => {}
    ///     Err(Error::NotMapped) => memory.put(new), // another thread was faster
    ///     Err(error) => return Err(error),
    /// }
    /// held.put(&memory);
    ///
    /// // The parent writes: nobody else has its page any more.
    /// assert!(parent.write_alone(0x1000, old, &())?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn exchange(
        &self,
        addr: u64,
        old: u64,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.spot(addr, tlb).exchange(old, source, attrs)
    }

    /// Lets a program write to a page of private memory that it has alone, the short way of copy-on-write: adds [`Attrs::WRITE`],
    /// [`Attrs::DIRTY`], [`Attrs::ACCESSED`] and [`Attrs::SOFT_DIRTY`]. `phys` is the first frame of the entry, which may be a huge page's. False: others
    /// have it (or one of its frames), too, or it is not private memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no page on this frame is mapped there (any more); [`Error::NoMemory`], [`Error::Misaligned`].
    pub fn write_alone(&self, addr: u64, phys: u64, tlb: &dyn Invalidate) -> Result<bool, Error> {
        self.spot(addr, tlb).write_alone(phys)
    }

    /// Adds attributes to a page, if it is still on this frame, the first of its entry: the end of a fault on a shared page that its file has been told of,
    /// and accessed and dirty bits where processors leave them to software.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no page on this frame is mapped there (any more); [`Error::NoMemory`], [`Error::Misaligned`].
    ///
    /// An example is at [`protect_with`](Self::protect_with).
    pub fn allow(
        &self,
        addr: u64,
        phys: u64,
        add: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        Self::pages(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(self.physical());
        let mut cursor = self.cursor(addr);
        let (table, level) = cursor.lock_page(addr, phys, &mut reserve, &mut gather)?;
        let slot = index(addr, level);
        let raw = table.load(slot);
        table.update::<F>(slot, raw, |raw| F::leaf(phys, F::attrs(raw) | add, level));
        // As above: what processors remember allows less, and a fault finds out.
        Ok(())
    }

    /// Takes a reference on the frame of 4 KiB at an address, if a processor could do there what `need` says without a fault. It keeps the frame, not the
    /// mapping: [`put`](Pin::put) gives it up.
    ///
    /// While it lasts, [`write_alone`](Self::write_alone) says no for this frame.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`]: a fault would be taken; [`Error::TooMany`]: the frame has 1,023 references. (An example is at
    /// [`exchange`](Self::exchange).)
    pub fn pin(&self, addr: u64, need: Attrs) -> Result<Pin, Error> {
        self.spot(addr, &()).pin(need)
    }

    /// Does what a processor does: looks whether it may do at `addr` what `need` says, notes that in the accessed bit, and with [`Attrs::WRITE`] in the
    /// dirty bit, and calls `access` with the physical address of that byte. For copies to and from a program, and atomic instructions on its memory.
    ///
    /// `access` runs under the table's lock, so that the page stays where it is, and as it may be used, until it returns. It must not call these tables,
    /// and stays within the page of 4 KiB.
    ///
    /// # Errors
    ///
    /// What is there instead: the caller takes the fault, and tries again.
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
        let mut cursor = self.cursor(addr);
        let (table, level, raw, phys) = cursor.lock_for(addr, need)?;
        let mut add = Attrs::ACCESSED;
        if need.contains(Attrs::WRITE) {
            add |= Attrs::DIRTY;
        }
        let attrs = F::attrs(raw);
        if !attrs.contains(add) {
            table.update::<F>(index(addr, level), raw, |raw| {
                F::leaf(F::phys(raw), F::attrs(raw) | add, level)
            });
        }
        Ok(access(phys))
    }
}

/// A reference on a frame that is mapped: see [`PageTables::pin`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the frame is kept until the reference is put"]
pub struct Pin {
    pub(crate) phys: u64,
    pub(crate) counted: bool,
}

impl Pin {
    /// The frame.
    pub fn phys(&self) -> u64 {
        self.phys
    }

    /// Whether the frame is counted: the zero page and device memory are not.
    pub fn counted(&self) -> bool {
        self.counted
    }

    /// Gives the reference up.
    pub fn put<B: FrameAllocator + PhysMem, R: Reclaim>(self, memory: &Physical<B, R>) {
        if self.counted {
            memory.put(self.phys);
        }
    }
}

impl<'a, F: Format, M: Memory> Cursor<'a, F, M> {
    /// Locks the table of the page on this frame, which is this address space's own; its level.
    #[inline]
    pub(crate) fn lock_page(
        &mut self,
        addr: u64,
        phys: u64,
        reserve: &mut Reserve<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<(Locked<'a>, usize), Error> {
        loop {
            let (table, level, raw) = self.lock_leaf(addr).map_err(|_| Error::NotMapped)?;
            if F::phys(raw) != phys {
                return Err(Error::NotMapped);
            }
            if !self.shared {
                return Ok((table, level));
            }
            drop(table);
            self.unshare(addr, reserve, gather)?;
        }
    }

    /// Locks the table of the page at an address, whatever its size; its level, and the entry. Otherwise what is there instead.
    #[inline]
    fn lock_leaf(&mut self, addr: u64) -> Result<(Locked<'a>, usize, u64), Entry> {
        let mut level = 0;
        loop {
            match self.lock(addr, level) {
                Ok(table) => {
                    let raw = table.load(index(addr, level));
                    if tag::holds(raw) && !(level > 0 && F::is_table(raw)) {
                        return Ok((table, level, raw));
                    }
                    if level == 0 {
                        return Err(F::decode(raw, 0));
                    }
                    // A huge page was here, and is no more.
                    level = 0;
                }
                Err(Stop { raw: 0, .. }) => return Err(Entry::Empty),
                Err(stop) => level = stop.level,
            }
        }
    }

    /// Locks the table of a page where a processor could do what `need` says; its level, the entry, and the byte's physical address.
    pub(crate) fn lock_for(
        &mut self,
        addr: u64,
        need: Attrs,
    ) -> Result<(Locked<'a>, usize, u64, u64), Entry> {
        if !F::canonical(addr) {
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
