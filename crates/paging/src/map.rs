//! Pages come.

use core::ops::Range;

use crate::cursor::{indices, remembered, stretch_end};
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::frames::Frames;
use crate::invalidate::{Changed, Invalidate};
use crate::phys::Memory;
use crate::reserve::Reserve;
use crate::share::forget_leaf;
use crate::space::PageTables;

/// The frame of a page, and how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caller's reference becomes the mapping. If the call fails, the reference is still the caller's.
    Owned(u64),
    /// One more mapping of a frame on which the caller holds a reference, and keeps it.
    Counted(u64),
    /// Not counted: device memory, memory mapped by its number, the zero page.
    Special(u64),
}

impl Source {
    /// The physical address.
    pub const fn phys(self) -> u64 {
        let (Self::Owned(phys) | Self::Counted(phys) | Self::Special(phys)) = self;
        phys
    }

    const fn advanced(self, bytes: u64) -> Self {
        match self {
            Self::Owned(phys) => Self::Owned(phys + bytes),
            Self::Counted(phys) => Self::Counted(phys + bytes),
            Self::Special(phys) => Self::Special(phys + bytes),
        }
    }

    #[inline]
    fn count(self, frames: &Frames) -> Result<(), Error> {
        match self {
            Self::Owned(phys) => frames.map_owned(phys),
            Self::Counted(phys) => frames.map(phys),
            Self::Special(_) => Ok(()),
        }
    }

    #[cold]
    fn uncount(self, frames: &Frames) {
        match self {
            Self::Owned(phys) => frames.unmap_owned(phys),
            Self::Counted(phys) => frames.unmap_kept(phys),
            Self::Special(_) => {}
        }
    }

    /// Counts all frames of a page, or none.
    pub(crate) fn count_all(self, frames: &Frames, size: PageSize) -> Result<(), Error> {
        for i in 0..size.frames() {
            if let Err(error) = self.advanced(i * PAGE_SIZE).count(frames) {
                self.uncount_first(frames, i);
                return Err(error);
            }
        }
        Ok(())
    }

    fn uncount_first(self, frames: &Frames, count: u64) {
        for i in 0..count {
            self.advanced(i * PAGE_SIZE).uncount(frames);
        }
    }

    pub(crate) fn attrs(self, attrs: Attrs) -> Attrs {
        match self {
            Self::Special(_) => attrs | Attrs::SPECIAL,
            _ => attrs - Attrs::SPECIAL,
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Maps one page of any size where nothing is mapped. `tlb` is told only if a shared table had to be copied.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NoMemory`], [`Error::Misaligned`] (the address or the frame), [`Error::TooMany`]. Nothing has changed then.
    pub fn map(
        &self,
        addr: u64,
        size: PageSize,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        if size == PageSize::Small {
            return self.map_with(addr, 1, attrs, tlb, |_| source);
        }
        Self::pages(&(addr..addr.saturating_add(size.bytes())))?;
        if !(addr | source.phys()).is_multiple_of(size.bytes()) {
            return Err(Error::Misaligned);
        }
        let level = size.level();
        let mut cursor = self.cursor(addr);
        let mut reserve = Reserve::none(self.physical());
        let mut table = cursor.lock_or_make(addr, level, &mut reserve)?;
        if table.load(index(addr, level)) != 0 {
            return Err(Error::Exists);
        }
        if let Err(error) = source.count_all(self.physical().frames(), size) {
            drop(table);
            let mut gather = self.gather(tlb);
            cursor.prune_at(addr, level, &mut gather);
            return Err(error);
        }
        let raw = F::leaf(source.phys(), source.attrs(attrs), level);
        table.store(index(addr, level), raw);
        table.add_used(1);
        Ok(())
    }

    /// Maps `count` small pages on neighbouring frames, the first of which is `source`.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map). Nothing has changed then.
    pub fn map_run(
        &self,
        addr: u64,
        count: usize,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.map_with(addr, count, attrs, tlb, |i| {
            source.advanced(i as u64 * PAGE_SIZE)
        })
    }

    /// Maps small pages on these frames, one after the other.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map). Nothing has changed then.
    pub fn map_pages(
        &self,
        addr: u64,
        sources: &[Source],
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.map_with(addr, sources.len(), attrs, tlb, |i| sources[i])
    }

    #[inline]
    fn map_with(
        &self,
        addr: u64,
        count: usize,
        attrs: Attrs,
        tlb: &dyn Invalidate,
        source: impl Fn(usize) -> Source,
    ) -> Result<(), Error> {
        let len = (count as u64)
            .checked_mul(PAGE_SIZE)
            .ok_or(Error::Misaligned)?;
        let range = addr..addr.checked_add(len).ok_or(Error::Misaligned)?;
        Self::pages(&range)?;
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(memory);
        let mut cursor = self.cursor(addr);
        if count > 1 {
            reserve.ensure(cursor.missing(&range)?)?;
        }
        let counted = F::rest(F::leaf(0, attrs - Attrs::SPECIAL, 0));
        let special = F::rest(F::leaf(0, attrs | Attrs::SPECIAL, 0));
        let mut at = range.start;
        let mut done = 0;
        let result = 'all: loop {
            if at == range.end {
                break Ok(());
            }
            let end = stretch_end(at, range.end);
            let mut table = match cursor.lock_own(at, &mut reserve, &mut gather) {
                Ok(table) => table,
                Err(error) => break Err(error),
            };
            for i in indices(at, end) {
                let source = source(done);
                let phys = source.phys();
                let misaligned = !phys.is_multiple_of(PAGE_SIZE);
                let checked = if misaligned {
                    Err(Error::Misaligned)
                } else if table.load(i) != 0 {
                    Err(Error::Exists)
                } else {
                    source.count(memory.frames())
                };
                if let Err(error) = checked {
                    break 'all Err(error);
                }
                let rest = if matches!(source, Source::Special(_)) {
                    special
                } else {
                    counted
                };
                table.store(i, rest | F::frame(phys));
                table.add_used(1);
                done += 1;
            }
            at = end;
        };
        if result.is_err() {
            self.unmap_new(&mut cursor, &mut gather, &range, done, &source);
        }
        result
    }

    /// Undoes the first `done` pages of a call of [`map_with`](Self::map_with).
    #[cold]
    fn unmap_new(
        &self,
        cursor: &mut crate::cursor::Cursor<'_, F, M>,
        gather: &mut crate::invalidate::Gather<'_, F, M>,
        range: &Range<u64>,
        done: usize,
        source: &dyn Fn(usize) -> Source,
    ) {
        for i in 0..done {
            let at = range.start + i as u64 * PAGE_SIZE;
            if let Ok(mut table) = cursor.lock(at, 0) {
                let slot = index(at, 0);
                let raw = table.load(slot);
                if tag::holds(raw) && F::phys(raw) == source(i).phys() {
                    let old = table.update::<F>(slot, raw, |_| 0);
                    table.sub_used(1);
                    source(i).uncount(self.physical().frames());
                    if remembered(old) {
                        gather.range(at, at + PAGE_SIZE, Changed::PAGES);
                    }
                }
            }
        }
        let mut at = range.start;
        while at < range.end {
            cursor.prune(at, gather);
            at = next(at, 1);
        }
    }

    /// Puts a marker where nothing or another marker is; `None` takes it away.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for a page, [`Error::NoMemory`], [`Error::Misaligned`]. Nothing has changed then.
    pub fn mark(&self, addr: u64, marker: Option<u32>, tlb: &dyn Invalidate) -> Result<(), Error> {
        Self::pages(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(self.physical());
        let mut cursor = self.cursor(addr);
        if marker.is_none() && self.entry(addr) == Entry::Empty {
            return Ok(());
        }
        let mut table = cursor.lock_own(addr, &mut reserve, &mut gather)?;
        let slot = index(addr, 0);
        let old = table.load(slot);
        if tag::holds(old) {
            return Err(Error::Exists);
        }
        let new = marker.map_or(0, tag::marker);
        table.store(slot, new);
        match (old == 0, new == 0) {
            (true, false) => table.add_used(1),
            (false, true) => table.sub_used(1),
            _ => {}
        }
        let empty = table.used() == 0;
        drop(table);
        if empty {
            cursor.prune(addr, &mut gather);
        }
        Ok(())
    }

    /// Puts another frame in the place of `old`, the second half of copy-on-write: the mapping of `old` goes once the processors
    /// have been told.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on the frame `old` is mapped there (any more); [`Error::NoMemory`], [`Error::Misaligned`],
    /// [`Error::TooMany`]. Nothing has changed then.
    pub fn exchange(
        &self,
        addr: u64,
        old: u64,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        Self::pages(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(memory);
        let mut cursor = self.cursor(addr);
        let table = cursor.lock_page(addr, old, &mut reserve, &mut gather)?;
        let slot = index(addr, 0);
        let raw = table.load(slot);
        source.count(memory.frames())?;
        let was = table.update::<F>(slot, raw, hidden::<F>);
        if remembered(was) {
            // No processor may use the old frame while another uses the new one.
            gather.tell_now(addr, addr + PAGE_SIZE, Changed::PAGES);
        }
        table.store(slot, F::leaf(source.phys(), source.attrs(attrs), 0));
        forget_leaf::<F, M>(memory, was, 0, gather.dead_list());
        Ok(())
    }

    /// Lets a program write to a small page of private memory that it has alone, the short way of copy-on-write: adds [`Attrs::WRITE`],
    /// [`Attrs::DIRTY`], [`Attrs::ACCESSED`] and [`Attrs::SOFT_DIRTY`]. False: others have it, too, or it is not private memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on this frame is mapped there (any more); [`Error::NoMemory`].
    pub fn write_alone(&self, addr: u64, phys: u64, tlb: &dyn Invalidate) -> Result<bool, Error> {
        Self::pages(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(memory);
        let mut cursor = self.cursor(addr);
        let mut table = cursor.lock_page(addr, phys, &mut reserve, &mut gather)?;
        // The place in a table that was copied just now is given up only after the processors know: until then the frame counts as had by two.
        if gather.waits() {
            drop(table);
            gather.finish();
            table = cursor.lock_page(addr, phys, &mut reserve, &mut gather)?;
        }
        let slot = index(addr, 0);
        let raw = table.load(slot);
        let frames = memory.frames();
        if F::special(raw) || !frames.is_anon(phys) || !frames.is_single(phys) {
            return Ok(false);
        }
        let add = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::SOFT_DIRTY;
        table.update::<F>(slot, raw, |raw| F::leaf(phys, F::attrs(raw) | add, 0));
        // A processor that remembers the page as read-only takes a fault, which finds it writable: no other must be told.
        Ok(true)
    }
}

impl<'a, F: Format, M: Memory> crate::cursor::Cursor<'a, F, M> {
    /// Locks the table of a small page on this frame, which is this address space's own.
    fn lock_page(
        &mut self,
        addr: u64,
        phys: u64,
        reserve: &mut Reserve<'_, M>,
        gather: &mut crate::invalidate::Gather<'_, F, M>,
    ) -> Result<crate::table::Locked<'a>, Error> {
        loop {
            let table = self.lock(addr, 0).map_err(|_| Error::NotMapped)?;
            let raw = table.load(index(addr, 0));
            if !tag::holds(raw) || F::phys(raw) != phys {
                return Err(Error::NotMapped);
            }
            if !self.shared {
                return Ok(table);
            }
            drop(table);
            self.unshare(addr, reserve, gather)?;
        }
    }

    /// [`prune`](Self::prune) from a table of this level upwards.
    fn prune_at(
        &mut self,
        addr: u64,
        level: usize,
        gather: &mut crate::invalidate::Gather<'_, F, M>,
    ) {
        if let Ok(table) = self.lock(addr, level)
            && table.used() == 0
        {
            drop(table);
            self.prune_from(addr, level, gather);
        }
    }
}

/// A small page as it stands while processors forget it: nobody has access.
fn hidden<F: Format>(raw: u64) -> u64 {
    F::leaf(F::phys(raw), F::attrs(raw) - Attrs::ACCESS, 0)
}

const _: () = assert!(span(0) == PAGE_SIZE);
