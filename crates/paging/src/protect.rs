//! Changing the attributes of mapped pages.

use crate::atomic::{AtomicU64, Ordering};
use core::array;
use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices, may_be_in_tlb, table_end};
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::frames::Frames;
use crate::invalidate::{Changed, Invalidate};
use crate::phys::{Memory, Physical};
use crate::prealloc::PreallocTables;
use crate::space::PageTables;
use crate::table::LockedTable;

/// The pages that get write access when a range becomes writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// No page. A fault decides whether to copy.
    Never,
    /// Exclusive pages of private memory that are already dirty, so that a fault would have nothing
    /// to do.
    Exclusive,
    /// Pages that are already dirty: shared mappings whose owner is notified by a fault at the
    /// first write to a page.
    Dirty,
    /// All pages: shared mappings whose writes are not tracked.
    Always,
}

/// The pages that a change applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFilter {
    /// All pages.
    All,
    /// Small pages, and huge pages that no other entry maps: `MADV_FREE`. Other huge pages are not
    /// split.
    ExceptSharedHuge,
    /// Pages that no other entry maps, in unshared tables: `MADV_COLD`.
    Exclusive,
}

/// A change of page attributes.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The pages that change.
    pub filter: PageFilter,
    /// The attributes to clear first.
    pub clear: Attrs,
    /// The attributes to set then, except [`Attrs::WRITE`], which depends on `write`.
    pub set: Attrs,
    /// The pages that get [`Attrs::WRITE`] if it is in `set`.
    pub write: WritePolicy,
}

impl Change {
    /// Returns the change to exactly this access for user mode, with the protection key in
    /// `access`.
    pub const fn access(access: Attrs, write: WritePolicy) -> Self {
        let clear = Attrs::ACCESS.union(Attrs::PKEY);
        Self {
            filter: PageFilter::All,
            clear,
            set: access.union(Attrs::USER),
            write,
        }
    }

    /// Returns the change that clears these bits: for trackers of accesses and of writes, and for
    /// `MADV_COLD`.
    pub const fn without(clear: Attrs) -> Self {
        Self {
            filter: PageFilter::All,
            clear,
            set: Attrs::empty(),
            write: WritePolicy::Never,
        }
    }

    /// Restricts the change to these pages.
    pub const fn filter(self, filter: PageFilter) -> Self {
        Self { filter, ..self }
    }

    /// Returns `true` if a leaf does not change because other entries map its frame.
    #[inline]
    fn leaves<F: Format>(&self, frames: &Frames, raw: u64, level: usize) -> bool {
        match self.filter {
            PageFilter::All => false,
            PageFilter::ExceptSharedHuge if level == 0 => false,
            _ => {
                F::is_special(raw)
                    || !frames.all_mapped_once(F::phys(raw), PageSize::of(level).order())
            }
        }
    }

    fn base(&self, attrs: Attrs) -> Attrs {
        (attrs - self.clear) | (self.set - Attrs::WRITE)
    }

    /// Returns `true` if a leaf gets write access in addition to [`base`](Self::base).
    #[inline]
    fn may_write<F: Format, M: Memory>(
        &self,
        memory: &Physical<M::Backing, M::Reclaim>,
        raw: u64,
        level: usize,
    ) -> bool {
        match self.write {
            _ if !self.set.contains(Attrs::WRITE) => false,
            WritePolicy::Never => false,
            WritePolicy::Always => true,
            WritePolicy::Dirty => F::without_dirty(raw) != raw,
            WritePolicy::Exclusive => {
                let frames = memory.frames();
                let order = PageSize::of(level).order();
                let phys = F::phys(raw);
                F::without_dirty(raw) != raw
                    && !F::is_special(raw)
                    && frames.is_anon(phys)
                    && frames.all_exclusive(phys, order)
            }
        }
    }

    fn apply<F: Format, M: Memory>(
        &self,
        memory: &Physical<M::Backing, M::Reclaim>,
        raw: u64,
        level: usize,
    ) -> u64 {
        let mut attrs = self.base(F::attrs(raw));
        if self.may_write::<F, M>(memory, raw, level) {
            attrs |= Attrs::WRITE;
        }
        F::leaf(F::phys(raw), attrs, level)
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Changes the attributes of the pages in a range (in bytes, the end exclusive). Markers and
    /// holes do not change.
    ///
    /// Each page has its old or its new attributes at any time. The TLBs are invalidated for
    /// removed rights before the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if a huge page reaches beyond the range, or tables are shared, and
    /// tables to split or copy them cannot be allocated. Nothing has changed then.
    /// [`Error::Misaligned`].
    pub fn protect(
        &self,
        range: Range<u64>,
        change: Change,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.change::<false>(range, change, tlb, &mut |_, _| {})
    }

    /// Does the same, and calls `seen` with each page that changes, as it was before, with the
    /// final accessed and dirty bits of the processor. A file's dirty pages are found and cleaned
    /// in this way before they are written back.
    ///
    /// `seen` runs under the table's lock, before the TLB invalidation: it must not call these
    /// tables or wait. A huge page is reported once.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Change, Entry, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let cached = memory.alloc_page(Kind::File)?;
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    /// space.map(0x1000, PageSize::Small, Source::Counted(cached), attrs, &())?;
    ///
    /// // msync: the page is clean from now on, and the next write takes a fault.
    /// let mut dirty = Vec::new();
    /// let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
    /// space.protect_with(0x1000..0x2000, change, &(), |addr, before| {
    ///     if let Entry::Page { phys, attrs, .. } = before && attrs.contains(Attrs::DIRTY) {
    ///         dirty.push((addr, phys));
    ///     }
    /// })?;
    /// assert_eq!(dirty, [(0x1000, cached)]);
    ///
    /// // That fault: the file is told, and then the same page may be written again.
    /// space.add_attrs(0x1000, cached, Attrs::WRITE | Attrs::DIRTY, &())?;
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn protect_with(
        &self,
        range: Range<u64>,
        change: Change,
        tlb: &dyn Invalidate,
        mut seen: impl FnMut(u64, Entry),
    ) -> Result<(), Error> {
        self.change::<true>(range, change, tlb, &mut seen)
    }

    /// Changes a range. `TOLD` is `false` if `seen` does nothing.
    fn change<const TOLD: bool>(
        &self,
        range: Range<u64>,
        change: Change,
        tlb: &dyn Invalidate,
        seen: &mut impl FnMut(u64, Entry),
    ) -> Result<(), Error> {
        self.check_range(&range)?;
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(memory);
        let mut cursor = self.cursor(range.start);
        prealloc.ensure(cursor.count_for_change(&range, true))?;
        let mut alike = CachedChange::none();
        let each = change.write == WritePolicy::Exclusive && change.set.contains(Attrs::WRITE);
        let frames = memory.frames();
        let mut at = range.start;
        while at < range.end {
            at = match cursor.lock(at, 0) {
                Ok(table) => {
                    let end = table_end(at, range.end);
                    if cursor.shared {
                        let others = table.users() > 1;
                        drop(table);
                        if change.filter == PageFilter::Exclusive && others {
                            at = end;
                            continue;
                        }
                        cursor.unshare(at, &mut prealloc, &mut gather)?;
                        if each && gather.has_shared() {
                            // No page is exclusive until the user count of the old shared table
                            // drops.
                            gather.finish();
                        }
                        continue;
                    }
                    let part = indices(at, end);
                    let changed =
                        self.change_entries::<TOLD>(&table, at, part, change, &mut alike, seen);
                    if !changed.is_empty() {
                        gather.range(changed.start, changed.end, Changed::PAGES);
                    }
                    drop(table);
                    gather.notify_mapped(at, end, change.set);
                    end
                }
                Err(Stop { level, raw: 0 }) => cursor.skip_hole(at, level, range.end),
                Err(Stop { level, raw }) => {
                    let start = at & !(span(level) - 1);
                    let end = next(at, level);
                    if !F::is_table(raw) && change.leaves::<F>(frames, raw, level) {
                        at = end;
                        continue;
                    }
                    if start < range.start || end > range.end {
                        cursor.split(at, level, &mut prealloc, &mut gather)?;
                        continue;
                    }
                    if !cursor.protect_leaf(start, level, change, &mut gather, seen) {
                        continue;
                    }
                    end
                }
            };
        }
        Ok(())
    }

    /// Changes the pages of one unshared last-level table. Returns the range that TLBs may hold
    /// with the old rights.
    #[inline(never)]
    fn change_entries<const TOLD: bool>(
        &self,
        table: &LockedTable<'_>,
        at: u64,
        part: Range<usize>,
        change: Change,
        alike: &mut CachedChange,
        seen: &mut impl FnMut(u64, Entry),
    ) -> Range<u64> {
        let memory = self.physical();
        let each = change.write == WritePolicy::Exclusive && change.set.contains(Attrs::WRITE);
        let only = change.filter == PageFilter::Exclusive;
        let base = at & !(span(1) - 1);
        let addr = |i: usize| base + i as u64 * PAGE_SIZE;
        // A local copy stays in registers during the loop.
        let mut known = *alike;
        let asks = each || only;
        // Whole chunks at once, if no page needs a decision of its own.
        let at_once = !TOLD && !asks;
        let (mut first, mut last) = (0, 0);
        let entries = table.table.entries(part.clone());
        let mut done = 0;
        while done < entries.len() {
            if at_once {
                let raw = entries[done].load(Ordering::Relaxed);
                if F::attr_bits(raw) != known.rest && tag::is_page(raw) {
                    known = CachedChange::of::<F>(&change, raw);
                }
                let alike = known.change_all::<F>(&entries[done..]);
                if alike > 0 && known.may_be_in_tlb && known.made != known.rest {
                    if last == 0 {
                        first = part.start + done;
                    }
                    last = part.start + done + alike;
                }
                done += alike;
            }
            let some = &entries[done..entries.len().min(done + CHUNK)];
            let from = part.start + done;
            done += some.len();
            for (i, slot) in (from..).zip(some) {
                let raw = slot.load(Ordering::Relaxed);
                let rest = F::attr_bits(raw);
                if rest != known.rest {
                    if !tag::is_page(raw) {
                        continue;
                    }
                    known = CachedChange::of::<F>(&change, raw);
                }
                let mut made = known.made;
                if asks {
                    if only && change.leaves::<F>(memory.frames(), raw, 0) {
                        continue;
                    }
                    if each && change.may_write::<F, M>(memory, raw, 0) {
                        made = known.writable;
                    }
                }
                if made == rest {
                    continue;
                }
                let old = if known.settled {
                    // All bits except the frame's.
                    table.store(i, raw ^ rest | made);
                    raw
                } else {
                    table.update::<F>(i, raw, |raw| change.apply::<F, M>(memory, raw, 0))
                };
                if TOLD {
                    seen(addr(i), F::decode(old, 0));
                }
                if known.may_be_in_tlb {
                    if last == 0 {
                        first = i;
                    }
                    last = i + 1;
                }
            }
        }
        *alike = known;
        if last == 0 {
            0..0
        } else {
            addr(first)..addr(last)
        }
    }
}

/// The number of entries processed together.
const CHUNK: usize = 8;

/// The change of pages that differ only in their frames, as neighbours mostly do.
#[derive(Clone, Copy)]
struct CachedChange {
    /// The attribute bits of their entries. All ones, which no entry has, if there are no such
    /// pages yet.
    rest: u64,
    /// The new attribute bits, and those for pages that also get write access.
    made: u64,
    writable: u64,
    settled: bool,
    may_be_in_tlb: bool,
}

impl CachedChange {
    const fn none() -> Self {
        Self {
            rest: u64::MAX,
            made: 0,
            writable: 0,
            settled: true,
            may_be_in_tlb: false,
        }
    }

    /// Changes the first of these entries, chunk by chunk, while all of them have these attributes.
    /// Returns the number of changed entries, which is 0 if the processor may still write to them.
    /// The caller holds the table's lock.
    #[inline(never)]
    fn change_all<F: Format>(&self, entries: &[AtomicU64]) -> usize {
        let (rest, differ) = (self.rest, self.rest ^ self.made);
        let mut alike = 0;
        if !self.settled {
            return 0;
        }
        for some in entries.chunks_exact(CHUNK) {
            let raw: [u64; CHUNK] = array::from_fn(|i| some[i].load(Ordering::Relaxed));
            let unlike = raw.iter().fold(0, |all, raw| all | (raw ^ rest));
            // Only the attribute bits must agree, because the frames differ.
            if F::attr_bits(unlike) != 0 {
                break;
            }
            alike += CHUNK;
            if differ != 0 {
                for (slot, raw) in some.iter().zip(raw) {
                    // The processor has not written here since the read. Release: as in
                    // `LockedTable::store`.
                    slot.store(raw ^ differ, Ordering::Release);
                }
            }
        }
        alike
    }

    #[inline(never)]
    fn of<F: Format>(change: &Change, raw: u64) -> Self {
        let attrs = change.base(F::attrs(raw));
        let writable = F::attr_bits(F::leaf(0, attrs | Attrs::WRITE, 0));
        let always = change.set.contains(Attrs::WRITE)
            && match change.write {
                WritePolicy::Never | WritePolicy::Exclusive => false,
                WritePolicy::Dirty => F::without_dirty(raw) != raw,
                WritePolicy::Always => true,
            };
        Self {
            rest: F::attr_bits(raw),
            made: if always {
                writable
            } else {
                F::attr_bits(F::leaf(0, attrs, 0))
            },
            writable,
            settled: F::is_hw_stable(raw),
            may_be_in_tlb: may_be_in_tlb(raw),
        }
    }
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Changes a huge page. Returns `false` if something else has replaced it.
    fn protect_leaf(
        &mut self,
        addr: u64,
        level: usize,
        change: Change,
        gather: &mut crate::invalidate::Gather<'_, F, M>,
        seen: &mut impl FnMut(u64, Entry),
    ) -> bool {
        let Ok(table) = self.lock(addr, level) else {
            return false;
        };
        let slot = index(addr, level);
        let raw = table.load(slot);
        if !tag::is_page(raw) || F::is_table(raw) {
            return false;
        }
        let memory = self.memory();
        let old = table.update::<F>(slot, raw, |raw| change.apply::<F, M>(memory, raw, level));
        seen(addr, F::decode(old, level));
        if may_be_in_tlb(old) {
            gather.range(addr, next(addr, level), Changed::PAGES);
        }
        gather.notify_mapped(addr, next(addr, level), change.set);
        true
    }
}
