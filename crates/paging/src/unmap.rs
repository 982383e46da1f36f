//! Unmapping of pages and markers.

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

/// The entries that a call removes from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmapFilter {
    /// Pages and markers: `munmap`.
    All,
    /// Pages, without markers: `MADV_DONTNEED` next to guard markers.
    Pages,
    /// Pages of files and of shared memory, when a hole is punched into a file. Markers, private
    /// memory and uncounted pages stay.
    FilePages,
    /// Pages that can be dropped or read again, and that no other entry maps: clean private memory,
    /// and pages of files and shared memory, which are in the page cache. For `MADV_PAGEOUT`
    /// without swap space. The caller records the dirty state of a file's page.
    Reclaimable,
    /// Markers of this value, for example guards. Pages and other markers stay.
    Marker(u32),
}

impl UnmapFilter {
    /// Returns `true` if this entry is to go.
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
    /// Removes all pages and markers from a range (in bytes, the end exclusive). Unreferenced
    /// frames are freed after the TLB invalidation, and empty tables after a grace period.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if a huge page, or the 2 MiB of a shared table, reaches beyond the
    /// range, and tables to split or copy it cannot be allocated. Nothing has changed then.
    /// [`Error::Misaligned`].
    ///
    /// Linear in the mapped pages of the range, and in the tables.
    pub fn unmap(&self, range: Range<u64>, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.unmap_filtered::<false>(range, UnmapFilter::All, tlb, &mut |_, _| {})?;
        Ok(())
    }

    /// Does the same, and reports for the last-level tables at both ends of the range if they
    /// became empty and were removed. The first value is for the table around the start, the second
    /// for the table around the end, which may be the same table. A table that lies wholly in the
    /// range is not reported. Linux keeps such a table as long as something else is mapped in its 2
    /// MiB.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap).
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

    /// Removes the entries that match `filter` from a range (in bytes, the end exclusive), as
    /// [`unmap`](Self::unmap) does. Calls `seen` with each removed entry, with the final accessed
    /// and dirty bits of the processor. The caller passes the dirty state of a page on to its file
    /// there.
    ///
    /// For a shared table, `seen` is called with the pages that this address space loses, as if the
    /// table had been its own. Each user of the table thus reports a dirty page. No page becomes
    /// dirty while its table is shared.
    ///
    /// `seen` runs under the table's lock, before the TLB invalidation: it must not call these
    /// tables or wait. The frames stay allocated until the call returns. A huge page is reported
    /// once.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap). For filters other than [`UnmapFilter::All`] also
    /// [`Error::NoMemory`] if tables in the range are shared. Nothing has changed then.
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

    /// Removes matching entries. `TOLD` is `false` if `seen` does nothing. Returns `true` for each
    /// end of the range whose table became empty.
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
        // Dropped in the opposite order: the gathered frames and tables are freed after the
        // cursor's section has ended.
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

    /// Removes matching entries from a part of one unshared last-level table.
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

/// Entries of a cache line.
const LINE: usize = 8;

/// Returns `true` if a whole cache line of entries is empty. Returns `false` for a part of a line.
#[inline]
fn is_empty_line(entries: &[AtomicU64]) -> bool {
    <&[AtomicU64; LINE]>::try_from(entries).is_ok_and(|line| {
        let raw = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        line.iter().fold(0, |all, slot| all | raw(slot)) == 0
    })
}

/// The most entries that are read before the table is locked.
const FEW: usize = 16;

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Returns `true` if a range is found empty without a lock, since untouched memory is often
    /// unmapped. It recognises ranges without any table below one upper table, and short ranges in
    /// one last-level table. A concurrent mapping by another thread may be missed, as if it came
    /// after the call. A mapping from before the call is found, because the walk starts at the
    /// root. An empty last-level table does not count as an empty range, because it must be
    /// removed.
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

    /// Removes a huge page, if it is still there.
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
