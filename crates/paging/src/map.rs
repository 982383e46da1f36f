//! Mapping of pages and markers.

use crate::atomic::Ordering;
use core::ops::Range;

use crate::cursor::{Stop, indices, may_be_in_tlb, table_end};
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::frames::Frames;
use crate::invalidate::{Changed, Invalidate};
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::space::PageTables;
use crate::table::LockedTable;

/// The frame of a page, and how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caller's reference becomes the mapping. If the call fails, the caller keeps the
    /// reference.
    Owned(u64),
    /// The frame gets another mapping. The caller holds a reference on it, and keeps the reference.
    Counted(u64),
    /// The frame is not counted: device memory, memory mapped by PFN, the zero page.
    Special(u64),
}

impl Source {
    /// Returns the physical address.
    pub const fn phys(self) -> u64 {
        let (Self::Owned(phys) | Self::Counted(phys) | Self::Special(phys)) = self;
        phys
    }

    const fn offset_by(self, bytes: u64) -> Self {
        match self {
            Self::Owned(phys) => Self::Owned(phys + bytes),
            Self::Counted(phys) => Self::Counted(phys + bytes),
            Self::Special(phys) => Self::Special(phys + bytes),
        }
    }

    #[inline]
    pub(crate) fn count(self, frames: &Frames) -> Result<(), Error> {
        match self {
            Self::Owned(phys) => frames.map_owned(phys),
            Self::Counted(phys) => frames.map(phys),
            Self::Special(_) => Ok(()),
        }
    }

    #[cold]
    fn uncount(self, frames: &Frames) {
        match self {
            Self::Owned(phys) => frames.undo_map_owned(phys),
            Self::Counted(phys) => frames.undo_map(phys),
            Self::Special(_) => {}
        }
    }

    /// Counts all frames of a page, or none.
    pub(crate) fn count_all(self, frames: &Frames, size: PageSize) -> Result<(), Error> {
        for i in 0..size.frames() {
            if let Err(error) = self.offset_by(i * PAGE_SIZE).count(frames) {
                self.uncount_first(frames, i);
                return Err(error);
            }
        }
        Ok(())
    }

    fn uncount_first(self, frames: &Frames, count: u64) {
        for i in 0..count {
            self.offset_by(i * PAGE_SIZE).uncount(frames);
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
    /// Maps one page of any size where nothing is mapped. It invalidates only if a shared table had
    /// to be copied.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NoMemory`], [`Error::Misaligned`] (the address or the frame),
    /// [`Error::TooMany`]. Nothing has changed then.
    pub fn map(
        &self,
        addr: u64,
        size: PageSize,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        if size == PageSize::Small {
            return self.pte(addr, tlb).map(source, attrs);
        }
        self.check_range(&(addr..addr.saturating_add(size.bytes())))?;
        if !(addr | source.phys()).is_multiple_of(size.bytes()) {
            return Err(Error::Misaligned);
        }
        let level = size.level();
        let mut cursor = self.cursor(addr);
        let mut prealloc = PreallocTables::none(self.physical());
        let mut table = cursor.lock_or_create(addr, level, &mut prealloc)?;
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
        self.bump_generation();
        drop(table);
        self.notify_mapped(tlb, addr, next(addr, level), attrs);
        Ok(())
    }

    /// Maps `count` small pages on adjacent frames, the first of which is `source`.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map). Nothing has changed then.
    pub fn map_run(
        &self,
        addr: u64,
        count: usize,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.map_with(addr, count, attrs, tlb, |i| {
            source.offset_by(i as u64 * PAGE_SIZE)
        })
    }

    /// Maps adjacent small pages on these frames.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map). Nothing has changed then.
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
        self.check_range(&range)?;
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(memory);
        let mut cursor = self.cursor(addr);
        if count > 1 {
            prealloc.ensure(cursor.count_missing(&range)?)?;
        }
        let counted = F::attr_bits(F::leaf(0, attrs - Attrs::SPECIAL, 0));
        let special = F::attr_bits(F::leaf(0, attrs | Attrs::SPECIAL, 0));
        let mut at = range.start;
        let mut done = 0;
        let result = 'all: loop {
            if at == range.end {
                break Ok(());
            }
            let end = table_end(at, range.end);
            let mut table = match cursor.lock_unshared(at, &mut prealloc, &mut gather) {
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
                table.store(i, rest | F::frame_bits(phys));
                table.add_used(1);
                done += 1;
            }
            gather.notify_mapped(at, end, attrs);
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
                if tag::is_page(raw) && F::phys(raw) == source(i).phys() {
                    let old = table.update::<F>(slot, raw, |_| 0);
                    table.sub_used(1);
                    source(i).uncount(self.physical().frames());
                    if may_be_in_tlb(old) {
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

    /// Maps small pages at all empty addresses of a range (in bytes, the end exclusive), and
    /// returns their number. Serves fault-around and `MAP_POPULATE`.
    ///
    /// `source` receives the address of each empty entry, in ascending order, and returns the frame
    /// to map, or `None` to leave the entry empty. An error of `source` ends the call. It runs
    /// under the table's lock: it may allocate frames, and must not call these tables.
    ///
    /// # Errors
    ///
    /// Those of `source`; [`Error::NoMemory`], [`Error::Misaligned`], [`Error::TooMany`]. Pages
    /// mapped before the error stay. An [owned](Source::Owned) frame that cannot be mapped is given
    /// up.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// // A page cache has the file's pages 0 and 2.
    /// let cache = [Some(memory.alloc_page(Kind::File)?), None, Some(memory.alloc_page(Kind::File)?)];
    /// let attrs = Attrs::READ | Attrs::USER;
    /// let mapped = space.populate(0x1000..0x4000, attrs, &(), |addr| {
    ///     Ok(cache[(addr as usize - 0x1000) >> 12].map(Source::Counted))
    /// })?;
    /// assert_eq!(mapped, 2);
    /// assert_eq!(space.translate(0x3000), Some((cache[2].unwrap(), attrs)));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn populate(
        &self,
        range: Range<u64>,
        attrs: Attrs,
        tlb: &dyn Invalidate,
        mut source: impl FnMut(u64) -> Result<Option<Source>, Error>,
    ) -> Result<usize, Error> {
        let memory = self.physical();
        let mut mapped = 0;
        let result = self.populate_tables(range, attrs, tlb, |table, base, part| {
            let mut count = 0;
            for i in part.filter(|&i| table.load(i) == 0) {
                let new = match source(base + i as u64 * PAGE_SIZE) {
                    Ok(Some(new)) => new,
                    Ok(None) => continue,
                    Err(error) => return (count, Err(error)),
                };
                let counted = if new.phys().is_multiple_of(PAGE_SIZE) {
                    new.count(memory.frames())
                } else {
                    Err(Error::Misaligned)
                };
                if let Err(error) = counted {
                    if let Source::Owned(phys) = new {
                        memory.put(phys);
                    }
                    return (count, Err(error));
                }
                table.store(i, F::leaf(new.phys(), new.attrs(attrs), 0));
                count += 1;
                mapped += 1;
            }
            (count, Ok(()))
        });
        result.map(|()| mapped)
    }

    /// Maps small pages on these frames, in order, at the empty addresses of a range (in bytes, the
    /// end exclusive), until no address or no frame is left. Serves population of many pages at
    /// once. Returns the number of frames that were mapped. The caller's
    /// [references](Source::Owned) on these, the first of `frames`, have become mappings; the
    /// caller keeps the others.
    ///
    /// # Errors
    ///
    /// Next to that number: [`Error::NoMemory`], [`Error::Misaligned`], [`Error::TooMany`]. Pages
    /// mapped before the error stay.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageTables, Physical, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let mut frames = [0; 16];
    /// let count = memory.alloc_zeroed_pages(Kind::Anon, &mut frames);
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    /// let (mapped, result) = space.populate_owned(0x1000..0x11000, attrs, &(), &frames[..count]);
    /// frames[mapped..count].iter().for_each(|&phys| memory.put(phys));
    /// result?;
    /// assert_eq!(space.translate(0x3000), Some((frames[2], attrs)));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn populate_owned(
        &self,
        range: Range<u64>,
        attrs: Attrs,
        tlb: &dyn Invalidate,
        frames: &[u64],
    ) -> (usize, Result<(), Error>) {
        let memory = self.physical();
        let counts = memory.frames().counts();
        let rest = F::attr_bits(F::leaf(0, attrs - Attrs::SPECIAL, 0));
        let mut left = frames.iter();
        let result = self.populate_tables(range, attrs, tlb, |table, _, part| {
            let before = left.len();
            let mut result = Ok(());
            for slot in table.table.entries(part) {
                if slot.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                let Some(&phys) = left.as_slice().first() else {
                    break;
                };
                if !phys.is_multiple_of(PAGE_SIZE) {
                    result = Err(Error::Misaligned);
                } else if !counts.map_owned(phys) {
                    result = memory.frames().map_owned(phys);
                }
                if result.is_err() {
                    break;
                }
                // Release: as in `LockedTable::store`.
                slot.store(rest | F::frame_bits(phys), Ordering::Release);
                left.next();
            }
            (before - left.len(), result)
        });
        (frames.len() - left.len(), result)
    }

    /// Calls `each` with each last-level table of a range, locked and created if missing, the
    /// address of the table's first entry, and the entries in the range. `each` returns the number
    /// of empty entries that it filled.
    #[inline(always)]
    fn populate_tables(
        &self,
        range: Range<u64>,
        attrs: Attrs,
        tlb: &dyn Invalidate,
        mut each: impl FnMut(&LockedTable<'_>, u64, Range<usize>) -> (usize, Result<(), Error>),
    ) -> Result<(), Error> {
        self.check_range(&range)?;
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(self.physical());
        let mut cursor = self.cursor(range.start);
        let mut at = range.start;
        while at < range.end {
            let mut table = match cursor.lock_or_create(at, 0, &mut prealloc) {
                Ok(table) => table,
                Err(Error::Exists) => {
                    // A huge page, if it is still there.
                    if let Err(Stop { level, raw }) = cursor.descend_from_root(at, 0)
                        && raw != 0
                    {
                        at = next(at, level);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let end = table_end(at, range.end);
            if cursor.shared {
                let full = indices(at, end).all(|i| table.load(i) != 0);
                drop(table);
                if full {
                    at = end;
                } else {
                    cursor.unshare(at, &mut prealloc, &mut gather)?;
                }
                continue;
            }
            let base = at & !(span(1) - 1);
            let (filled, result) = each(&table, base, indices(at, end));
            table.add_used(filled as u32);
            let empty = table.used() == 0;
            drop(table);
            if filled > 0 {
                gather.notify_mapped(at, end, attrs);
            }
            if empty {
                cursor.prune(at, &mut gather);
            }
            result?;
            at = end;
        }
        Ok(())
    }

    /// Sets a marker where nothing or another marker is; `None` clears it.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for a page, [`Error::NoMemory`], [`Error::Misaligned`]. Nothing has
    /// changed then.
    pub fn set_marker(
        &self,
        addr: u64,
        marker: Option<u32>,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(self.physical());
        let mut cursor = self.cursor(addr);
        if marker.is_none() && self.entry(addr) == Entry::Empty {
            return Ok(());
        }
        let mut table = cursor.lock_unshared(addr, &mut prealloc, &mut gather)?;
        let slot = index(addr, 0);
        let old = table.load(slot);
        if tag::is_page(old) {
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
}

impl<F: Format, M: Memory> crate::cursor::Cursor<'_, F, M> {
    /// [Prunes](Self::prune) a range, from the lowest existing tables up.
    pub(crate) fn prune_range(
        &mut self,
        range: Range<u64>,
        gather: &mut crate::invalidate::Gather<'_, F, M>,
    ) {
        let mut at = range.start;
        while at < range.end {
            let (level, leaf) = match self.descend_from_root(at, 0) {
                Ok(_) => (0, false),
                Err(Stop { level, raw }) => (level, raw != 0),
            };
            if !leaf {
                self.prune_at(at, level, gather);
            }
            at = next(at, level.max(1));
        }
    }

    /// [Prunes](Self::prune) from a table of this level upwards.
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

const _: () = assert!(span(0) == PAGE_SIZE);
