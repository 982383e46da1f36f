//! The place of one small page: found once for all that a fault does there.
//!
//! A fault looks, and then maps, copies or allows what it has found missing. Each of these would enter a section and go down from the root; a spot does so
//! once. What it has found may be gone when it goes on: each step locks the table, and looks again.

use core::slice;

use crate::cursor::{Cursor, Stop, remembered};
use crate::dead::Dead;
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, span, tag};
use crate::error::Error;
use crate::fault::Pin;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::map::Source;
use crate::phys::Memory;
use crate::reserve::Reserve;
use crate::share::forget_leaf;
use crate::space::PageTables;
use crate::table::Locked;
use crate::walk::behind;

/// One page of an address space, found once: see [`PageTables::spot`].
///
/// While it lives, tables that others take out of the tree are not freed, as with a [`View`](crate::View).
#[must_use]
pub struct Spot<'a, F: Format, M: Memory> {
    cursor: Cursor<'a, F, M>,
    addr: u64,
    tlb: &'a dyn Invalidate,
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// The place of the page at `addr`, for looking and then changing, in one [section](crate::Reclaim::Section) and by one way down. `tlb` is told what
    /// processors must forget.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Entry, Grace, Kind, PageTables, Physical, Source, format::X86_64};
    /// # let memory = Physical::new(Arena::on_heap(64)?, Grace::new(), 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let mut spot = space.spot(0x1000, &());
    /// if spot.entry() == Entry::Empty {
    ///     let page = memory.alloc_page(Kind::Anon)?;
    ///     spot.map(Source::Owned(page), Attrs::READ | Attrs::USER)?;
    ///     assert!(spot.write_alone(page)?);
    /// }
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    #[inline]
    pub fn spot<'a>(&'a self, addr: u64, tlb: &'a dyn Invalidate) -> Spot<'a, F, M> {
        Spot {
            cursor: self.cursor(addr),
            addr,
            tlb,
        }
    }
}

impl<'a, F: Format, M: Memory> Spot<'a, F, M> {
    /// As [`PageTables::entry`].
    #[inline]
    pub fn entry(&mut self) -> Entry {
        if !F::canonical(self.addr) {
            return Entry::Empty;
        }
        let space = self.cursor.space;
        loop {
            let before = space.generation();
            let (raw, level, guarded) = match self.cursor.descend_anew(self.addr, 0) {
                Ok(table) => (table.read(index(self.addr, 0)), 0, self.cursor.guarded()),
                Err(Stop { level, raw }) => (raw, level, false),
            };
            if space.generation() == before {
                return behind(F::decode(raw, level), guarded);
            }
        }
    }

    /// As [`PageTables::map`], of a small page.
    ///
    /// # Errors
    ///
    /// As there. Nothing has changed then.
    pub fn map(&mut self, source: Source, attrs: Attrs) -> Result<(), Error> {
        self.aligned()?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        match self.cursor.lock(self.addr, 0) {
            Ok(table) if !self.cursor.shared => self.map_in(table, source, attrs),
            found => {
                drop(found);
                self.map_anew(source, attrs)
            }
        }
    }

    fn map_in(&self, mut table: Locked<'_>, source: Source, attrs: Attrs) -> Result<(), Error> {
        let slot = index(self.addr, 0);
        if table.load(slot) != 0 {
            return Err(Error::Exists);
        }
        source.count(self.cursor.memory().frames())?;
        table.store(slot, F::leaf(source.phys(), source.attrs(attrs), 0));
        table.add_used(1);
        Ok(())
    }

    /// The same where a table must be made first, or is shared.
    #[cold]
    fn map_anew(&mut self, source: Source, attrs: Attrs) -> Result<(), Error> {
        let space = self.cursor.space;
        let mut gather = space.gather(self.tlb);
        let mut reserve = Reserve::none(space.physical());
        let locked = self.cursor.lock_own(self.addr, &mut reserve, &mut gather);
        let result = locked.and_then(|table| self.map_in(table, source, attrs));
        if result.is_err() {
            // Tables that were made for nothing.
            self.cursor.prune(self.addr, &mut gather);
        }
        self.finish(&mut gather);
        result
    }

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
    /// let mut spot = child.spot(0x1000, &());
    /// let Some(held) = spot.write_or_pin(old)? else { unreachable!() }; // so that the old page is not freed while it is copied
    /// let new = memory.alloc_page(Kind::Anon)?;
    /// // SAFETY: two frames, one held and not written to while it is shared, one not yet known to anybody.
    /// unsafe { memory.to_virt(new).copy_from(memory.to_virt(old), 4096) };
    /// match spot.exchange(old, Source::Owned(new), rw) {
    ///     Ok(()) => {}
    ///     Err(Error::NotMapped) => memory.put(new), // another thread was faster
    ///     Err(error) => return Err(error),
    /// }
    /// held.put(&memory);
    ///
    /// // The parent writes: nobody else has its page any more.
    /// assert!(parent.spot(0x1000, &()).write_alone(old)?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn exchange(&mut self, old: u64, source: Source, attrs: Attrs) -> Result<(), Error> {
        self.aligned()?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let mut dead = Dead::new();
        let result = match self.cursor.lock(self.addr, 0) {
            Ok(table) if !self.cursor.shared => {
                let raw = table.load(index(self.addr, 0));
                if !tag::holds(raw) || F::phys(raw) != old {
                    return Err(Error::NotMapped);
                }
                self.exchange_in(table, source, attrs, &mut dead)
            }
            found => {
                drop(found);
                return self.exchange_anew(old, source, attrs);
            }
        };
        if !dead.is_empty() {
            self.cursor.memory().free_dead(&mut dead);
        }
        result
    }

    fn exchange_in(
        &self,
        table: Locked<'_>,
        source: Source,
        attrs: Attrs,
        dead: &mut Dead,
    ) -> Result<(), Error> {
        let (addr, memory) = (self.addr, self.cursor.memory());
        let slot = index(addr, 0);
        source.count(memory.frames())?;
        let was = table.update::<F>(slot, table.load(slot), hidden::<F>);
        if remembered(was) {
            // No processor may use the old frame while another uses the new one.
            let (asid, range) = (self.cursor.space.asid(), addr..addr + PAGE_SIZE);
            self.tlb
                .invalidate(asid, slice::from_ref(&range), Changed::PAGES);
        }
        table.store(slot, F::leaf(source.phys(), source.attrs(attrs), 0));
        forget_leaf::<F, M>(memory, was, 0, dead);
        Ok(())
    }

    /// The same where the table may be shared, or a huge page is there.
    #[cold]
    fn exchange_anew(&mut self, old: u64, source: Source, attrs: Attrs) -> Result<(), Error> {
        let mut gather = self.cursor.space.gather(self.tlb);
        let mut reserve = Reserve::none(self.cursor.memory());
        let locked = (self.cursor).lock_page(self.addr, old, &mut reserve, &mut gather);
        let result = match locked {
            Ok((table, 0)) => self.exchange_in(table, source, attrs, gather.dead()),
            Ok(_) => Err(Error::NotMapped),
            Err(error) => Err(error),
        };
        self.finish(&mut gather);
        result
    }

    /// Lets a program write to a page of private memory that it has alone, the short way of copy-on-write: adds [`Attrs::WRITE`],
    /// [`Attrs::DIRTY`], [`Attrs::ACCESSED`] and [`Attrs::SOFT_DIRTY`]. `phys` is the first frame of the entry, which may be a huge page's. False: others
    /// have it (or one of its frames), too, or it is not private memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no page on this frame is mapped there (any more); [`Error::NoMemory`], [`Error::Misaligned`].
    pub fn write_alone(&mut self, phys: u64) -> Result<bool, Error> {
        Ok(self.alone::<false>(phys)?.is_ok())
    }

    /// What a write to a page of private memory begins with: allows it if this address space has the page alone, as [`write_alone`](Self::write_alone) does
    /// (`None`). Otherwise it takes a reference on the frame of 4 KiB, so that the page can be copied, as
    /// [`PageTables::pin`] does.
    ///
    /// # Errors
    ///
    /// As [`write_alone`](Self::write_alone); [`Error::TooMany`]: the frame has 1,023 references.
    pub fn write_or_pin(&mut self, phys: u64) -> Result<Option<Pin>, Error> {
        Ok(self.alone::<true>(phys)?.err().flatten())
    }

    /// Allows a write, or says that others have the page, too, with a reference if one is to be taken.
    #[inline]
    fn alone<const PIN: bool>(&mut self, phys: u64) -> Result<Result<(), Option<Pin>>, Error> {
        self.aligned()?;
        match self.cursor.lock(self.addr, 0) {
            Ok(table) if !self.cursor.shared => {
                let raw = table.load(index(self.addr, 0));
                if !tag::holds(raw) || F::phys(raw) != phys {
                    return Err(Error::NotMapped);
                }
                self.alone_in::<PIN>(&table, 0, phys)
            }
            found => {
                drop(found);
                self.alone_anew::<PIN>(phys)
            }
        }
    }

    #[inline(always)]
    fn alone_in<const PIN: bool>(
        &self,
        table: &Locked<'_>,
        level: usize,
        phys: u64,
    ) -> Result<Result<(), Option<Pin>>, Error> {
        let frames = self.cursor.memory().frames();
        let slot = index(self.addr, level);
        let raw = table.load(slot);
        let single = || match level {
            0 => frames.is_alone(phys),
            _ => frames.all_alone(phys, PageSize::of(level).order()),
        };
        let special = F::special(raw);
        if special || !frames.is_anon(phys) || !single() {
            let own = phys + (self.addr & (span(level) - 1));
            return Ok(Err(if PIN {
                Some(Pin::of(self.cursor.memory(), own, !special)?)
            } else {
                None
            }));
        }
        let add = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::SOFT_DIRTY;
        table.update::<F>(slot, raw, |raw| F::leaf(phys, F::attrs(raw) | add, level));
        // A processor that remembers the page as read-only takes a fault, which finds it writable: no other must be told.
        Ok(Ok(()))
    }

    /// The same where the table may be shared, or a huge page is there.
    #[cold]
    fn alone_anew<const PIN: bool>(&mut self, phys: u64) -> Result<Result<(), Option<Pin>>, Error> {
        let mut gather = self.cursor.space.gather(self.tlb);
        let result = self.alone_with::<PIN>(phys, &mut gather);
        self.finish(&mut gather);
        result
    }

    fn alone_with<const PIN: bool>(
        &mut self,
        phys: u64,
        gather: &mut Gather<'a, F, M>,
    ) -> Result<Result<(), Option<Pin>>, Error> {
        let addr = self.addr;
        let mut reserve = Reserve::none(self.cursor.memory());
        let (mut table, mut level) = self.cursor.lock_page(addr, phys, &mut reserve, gather)?;
        // The place in a table that was copied just now is given up only after the processors know: until then the frame counts as had by two.
        if gather.waits() {
            drop(table);
            self.cursor.outside(|| gather.finish());
            (table, level) = self.cursor.lock_page(addr, phys, &mut reserve, gather)?;
        }
        self.alone_in::<PIN>(&table, level, phys)
    }

    /// Runs `work` outside of the section: what waits for walks does not wait for this one. What is found before says nothing after.
    pub fn outside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.cursor.outside(work)
    }

    #[inline]
    fn aligned(&self) -> Result<(), Error> {
        // As `PageTables::pages` says of the range from here to the next page, which there must be.
        let last = PAGE_SIZE.wrapping_neg();
        let page = self.addr.is_multiple_of(PAGE_SIZE) && self.addr != last;
        (page && F::canonical(self.addr))
            .then_some(())
            .ok_or(Error::Misaligned)
    }

    /// Tables that wait for walks do not wait for this one.
    #[inline]
    fn finish(&mut self, gather: &mut Gather<'a, F, M>) {
        if gather.retires() {
            self.cursor.outside(|| gather.finish());
        }
    }
}

/// A small page as it stands while processors forget it: nobody has access.
fn hidden<F: Format>(raw: u64) -> u64 {
    F::leaf(F::phys(raw), F::attrs(raw) - Attrs::ACCESS, 0)
}
