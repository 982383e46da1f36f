//! Pages go.

use crate::atomic::{AtomicU64, Ordering};
use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices, may_be_in_tlb, table_end};
use crate::entry::{ENTRIES, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::frames::Frames;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::share::{release_leaf, release_page};
use crate::space::PageTables;
use crate::table::LockedTable;

/// What a call takes out of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmapFilter {
    /// Pages and markers: `munmap`.
    All,
    /// Pages; markers stay: `MADV_DONTNEED` beside guards.
    Pages,
    /// Pages of files and of shared memory; markers, private memory and what is not counted stay: a hole is punched into a file.
    FilePages,
    /// Pages that can be dropped, or read again, and that no other entry maps: private memory that is clean, and pages of files and of shared memory,
    /// which their caches have; for `MADV_PAGEOUT` without a place to swap to. What is dirty in a file's page is the caller's to note.
    Reclaimable,
    /// Markers of this value; pages and other markers stay: guards are taken away.
    Marker(u32),
}

impl UnmapFilter {
    /// Whether this entry goes.
    #[inline(always)]
    pub(crate) fn matches<F: Format>(self, frames: &Frames, raw: u64, level: usize) -> bool {
        match self {
            Self::All => raw != 0,
            Self::Pages => tag::is_page(raw),
            Self::FilePages => {
                tag::is_page(raw) && !F::is_special(raw) && !frames.is_anon(F::phys(raw))
            }
            Self::Marker(marker) => raw == tag::marker(marker),
            Self::Reclaimable => {
                tag::is_page(raw)
                    && !F::is_special(raw)
                    && (F::without_dirty(raw) == raw || !frames.is_anon(F::phys(raw)))
                    && frames.all_mapped_once(F::phys(raw), PageSize::of(level).order())
            }
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Takes all pages and markers out of a range (in bytes, the end exclusive). Frames that nothing else has are freed, once the processors have been
    /// told; tables that become empty, once no walk can hold them.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: a huge page, or a stretch of 2 MiB whose table is shared, reaches beyond the range and needs tables to be divided. Nothing
    /// has changed then. [`Error::Misaligned`].
    ///
    /// Linear in the pages of the range that are there, and in the tables.
    pub fn unmap(&self, range: Range<u64>, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.unmap_filtered::<false>(range, UnmapFilter::All, tlb, &mut |_, _| {})?;
        Ok(())
    }

    /// The same, and whether a last-level table of which the range holds a part only became empty, and has gone: the table around the start of the range, and
    /// the one around its end, which may be the same. Linux keeps it as long as something else is mapped in its 2 MiB.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap).
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let attrs = Attrs::READ | Attrs::USER;
    /// for page in [0x1000, 0x3000] {
    ///     let frame = memory.alloc_page(Kind::Anon)?;
    ///     space.map(page, PageSize::Small, Source::Owned(frame), attrs, &())?;
    /// }
    /// assert_eq!(space.unmap_reporting_tables(0x1000..0x2000, &())?, [false, false]); // a page is left in the table
    /// assert_eq!(space.unmap_reporting_tables(0..0x4000, &())?, [false, true]);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    #[inline]
    pub fn unmap_reporting_tables(
        &self,
        range: Range<u64>,
        tlb: &dyn Invalidate,
    ) -> Result<[bool; 2], Error> {
        self.unmap_filtered::<false>(range, UnmapFilter::All, tlb, &mut |_, _| {})
    }

    /// Takes pages out of a range (in bytes, the end exclusive), as [`unmap`](Self::unmap) does, but of those that `filter` names. `seen` is told of
    /// each entry that goes, with the processor's last word on its accessed and dirty bits: a file's page is given its dirty state back there.
    ///
    /// Of a table that is shared, `seen` is told of the pages that this address space loses, as if it had had them in a table of its own; so each user
    /// of the table tells of a dirty page. No page becomes dirty while its table is shared.
    ///
    /// `seen` runs under the table's lock, before the processors have been told: it must not call these tables, nor wait. The frame of a page is alive
    /// until the call returns. For a huge page it is called once.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap); with others than [`UnmapFilter::All`] also [`Error::NoMemory`] if tables in the range are shared. Nothing has
    /// changed then.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Entry, Exclusive, Kind, PageSize, PageTables, Physical, Source, UnmapFilter, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let cached = memory.alloc_page(Kind::File)?; // a page cache's reference
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    /// space.map(0x1000, PageSize::Small, Source::Counted(cached), attrs, &())?;
    ///
    /// let mut dirty = Vec::new();
    /// space.unmap_with(0..0x10000, UnmapFilter::FilePages, &(), |addr, entry| {
    ///     if let Entry::Page { phys, attrs, .. } = entry && attrs.contains(Attrs::DIRTY) {
    ///         dirty.push((addr, phys)); // a kernel marks the page in its cache
    ///     }
    /// })?;
    /// assert_eq!(dirty, [(0x1000, cached)]);
    /// assert_eq!(memory.frames().info(cached).unwrap().references, 1);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn unmap_with(
        &self,
        range: Range<u64>,
        filter: UnmapFilter,
        tlb: &dyn Invalidate,
        mut seen: impl FnMut(u64, Entry),
    ) -> Result<(), Error> {
        self.unmap_filtered::<true>(range, filter, tlb, &mut seen)?;
        Ok(())
    }

    /// `TOLD`: whether `seen` does anything. Which of the tables at both ends have become empty.
    #[inline]
    fn unmap_filtered<const TOLD: bool>(
        &self,
        range: Range<u64>,
        filter: UnmapFilter,
        tlb: &dyn Invalidate,
        seen: &mut impl FnMut(u64, Entry),
    ) -> Result<[bool; 2], Error> {
        self.check_range(&range)?;
        let mut emptied = [false; 2];
        // Dropped in the opposite order: what has been gathered is freed when the cursor's section is over.
        let (mut gather, mut prealloc);
        let mut cursor = self.cursor(range.start);
        if cursor.range_is_empty(&range) {
            return Ok(emptied);
        }
        gather = self.gather(tlb);
        prealloc = PreallocTables::none(self.physical());
        prealloc.ensure(cursor.count_for_change(&range, filter != UnmapFilter::All))?;
        let mut at = range.start;
        while at < range.end {
            at = match cursor.lock(at, 0) {
                Ok(table) if cursor.shared => {
                    let end = table_end(at, range.end);
                    let frames = self.physical().frames();
                    let kept = |i: usize| {
                        let raw = table.load(i);
                        raw != 0 && !filter.matches::<F>(frames, raw, 0)
                    };
                    let whole = end - at == span(1) && !(0..ENTRIES).any(kept);
                    let others = filter == UnmapFilter::Reclaimable && table.users() > 1;
                    let nothing = others
                        || !indices(at, end).any(|i| filter.matches::<F>(frames, table.load(i), 0));
                    drop(table);
                    if nothing {
                        at = end;
                    } else if whole {
                        cursor.drop_shared::<TOLD>(at, &mut gather, seen);
                    } else {
                        cursor.unshare(at, &mut prealloc, &mut gather)?;
                    }
                    continue;
                }
                Ok(mut table) => {
                    let end = table_end(at, range.end);
                    self.unmap_entries::<TOLD>(&mut table, at, end, filter, &mut gather, seen);
                    let empty = table.used() == 0;
                    drop(table);
                    if empty {
                        cursor.prune(at, &mut gather);
                        emptied[0] |= at & (span(1) - 1) != 0;
                        emptied[1] |= end & (span(1) - 1) != 0;
                    }
                    end
                }
                Err(Stop { level, raw: 0 }) => cursor.skip_hole(at, level, range.end),
                Err(Stop { level, raw }) => {
                    let start = at & !(span(level) - 1);
                    let end = next(at, level);
                    if !F::is_table(raw)
                        && !filter.matches::<F>(self.physical().frames(), raw, level)
                    {
                        at = end;
                    } else if start < range.start || end > range.end {
                        cursor.split(at, level, &mut prealloc, &mut gather)?;
                    } else {
                        cursor.unmap_leaf(start, level, &mut gather, seen);
                    }
                    continue;
                }
            };
        }
        Ok(emptied)
    }

    /// Takes entries out of one last-level table, which is this address space's own.
    #[inline]
    pub(crate) fn unmap_entries<const TOLD: bool>(
        &self,
        table: &mut LockedTable<'_>,
        at: u64,
        end: u64,
        filter: UnmapFilter,
        gather: &mut Gather<'_, F, M>,
        seen: &mut impl FnMut(u64, Entry),
    ) {
        let memory = self.physical();
        let frames = memory.frames();
        let base = at & !(span(1) - 1);
        let mut gone = 0;
        let (mut first, mut last) = (u64::MAX, 0);
        let counts = frames.counts();
        let part = indices(at, end);
        let entries = table.table.entries(part.clone());
        for (some, from) in entries.chunks(LINE).zip(part.step_by(LINE)) {
            if is_empty_line(some) {
                continue;
            }
            for (i, slot) in (from..).zip(some) {
                let raw = slot.load(Ordering::Relaxed);
                if raw == 0 || !filter.matches::<F>(frames, raw, 0) {
                    continue;
                }
                let old = table.update::<F>(i, raw, |_| 0);
                gone += 1;
                let addr = base + i as u64 * PAGE_SIZE;
                if may_be_in_tlb(old) {
                    first = first.min(addr);
                    last = addr + PAGE_SIZE;
                }
                if TOLD {
                    seen(addr, F::decode(old, 0));
                }
                release_page::<F, M>(memory, counts, old, gather.deferred());
            }
        }
        if last > 0 {
            gather.range(first, last, Changed::PAGES);
        }
        table.sub_used(gone);
    }
}

/// Entries in a line of the cache.
const LINE: usize = 8;

/// Whether all of these are empty; true is not told of a part of a line.
#[inline]
fn is_empty_line(entries: &[AtomicU64]) -> bool {
    <&[AtomicU64; LINE]>::try_from(entries).is_ok_and(|line| {
        let raw = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        line.iter().fold(0, |all, slot| all | raw(slot)) == 0
    })
}

/// How many entries are looked at before the table is locked.
const FEW: usize = 16;

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Whether a range is seen to hold nothing, without any lock: memory that nobody has touched is often unmapped again. Seen are ranges without
    /// any table below one of an upper level, and short ones in one last-level table. What another thread maps in the meantime may be missed, as if it
    /// came after; what was mapped before this began is seen, since the way goes down from the root. A table in which nothing is at all is not
    /// passed over: it is to go.
    #[inline]
    fn range_is_empty(&mut self, range: &Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        let end = table_end(range.start, range.end);
        match self.descend(range.start, 0) {
            Ok(table) => {
                let part = indices(range.start, end);
                end == range.end && part.len() <= FEW && table.seems_used() && {
                    let entries = table.entries(part);
                    entries.iter().all(|slot| slot.load(Ordering::SeqCst) == 0)
                }
            }
            Err(Stop { level, raw: 0 }) => {
                self.skip_hole(range.start, level, range.end) == range.end
            }
            Err(_) => false,
        }
    }

    /// Takes out a huge page, if it is still there.
    pub(crate) fn unmap_leaf(
        &mut self,
        addr: u64,
        level: usize,
        gather: &mut Gather<'_, F, M>,
        seen: &mut impl FnMut(u64, Entry),
    ) {
        let Ok(mut table) = self.lock(addr, level) else {
            return;
        };
        let slot = index(addr, level);
        let raw = table.load(slot);
        if raw == 0 || F::is_table(raw) {
            return;
        }
        let old = table.update::<F>(slot, raw, |_| 0);
        table.sub_used(1);
        if may_be_in_tlb(old) {
            gather.range(addr, next(addr, level), Changed::PAGES);
        }
        seen(addr, F::decode(old, level));
        release_leaf::<F, M>(self.memory(), old, level, gather.deferred());
        let empty = table.used() == 0;
        drop(table);
        if empty {
            self.prune_from(addr, level, gather);
        }
    }
}
