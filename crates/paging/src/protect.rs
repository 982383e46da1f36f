//! Pages change what they allow.

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

/// Who gets permission to write when a range becomes writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// No page: a fault finds out whether it has to be copied.
    Never,
    /// Pages of private memory that this address space has alone and that are dirty already, so that no fault has anything to do there.
    Exclusive,
    /// Pages that are dirty already: shared mappings, whose owner is told of the first write to a page, by a fault.
    Dirty,
    /// All pages: shared mappings of which nobody wants to know what was written.
    Always,
}

/// Which pages change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFilter {
    /// All.
    All,
    /// Small pages, and huge pages that no other entry maps: `MADV_FREE`. Others are not divided.
    ExceptSharedHuge,
    /// Pages that no other entry maps, in tables that no other address space uses: `MADV_COLD`.
    Exclusive,
}

/// What becomes of each page's attributes.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Of which pages.
    pub filter: PageFilter,
    /// Taken away first.
    pub clear: Attrs,
    /// Added then, but for [`Attrs::WRITE`], which `write` decides on.
    pub set: Attrs,
    /// Who gets [`Attrs::WRITE`] if it is in `set`.
    pub write: WritePolicy,
}

impl Change {
    /// This access, no other, and this key; programs may use it.
    pub const fn access(access: Attrs, write: WritePolicy) -> Self {
        let clear = Attrs::ACCESS.union(Attrs::PKEY);
        Self {
            filter: PageFilter::All,
            clear,
            set: access.union(Attrs::USER),
            write,
        }
    }

    /// These bits less: for trackers of use and of writes, and `MADV_COLD`.
    pub const fn without(clear: Attrs) -> Self {
        Self {
            filter: PageFilter::All,
            clear,
            set: Attrs::empty(),
            write: WritePolicy::Never,
        }
    }

    /// The same change of these pages alone.
    pub const fn filter(self, filter: PageFilter) -> Self {
        Self { filter, ..self }
    }

    /// Whether a leaf is left as it is, for others map its frame, too.
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

    /// Whether a leaf gets permission to write beyond what [`base`](Self::base) says.
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
    /// Changes what the pages of a range (in bytes, the end exclusive) allow; markers and holes stay as they are.
    ///
    /// Each page has its old or its new attributes at any time. The processors have been told of what was taken away when the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: a huge page reaches beyond the range, or tables are shared, and need tables to be divided or copied. Nothing has
    /// changed then. [`Error::Misaligned`].
    pub fn protect(
        &self,
        range: Range<u64>,
        change: Change,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.change::<false>(range, change, tlb, &mut |_, _| {})
    }

    /// The same, and `seen` is told of each page that changes, as it was until then, with the processor's last word on its accessed and dirty bits: so
    /// a file's dirty pages are found, and cleaned, before they are written back.
    ///
    /// `seen` runs under the table's lock, before the processors have been told: it must not call these tables, nor wait. For a huge page it is called
    /// once.
    ///
    /// # Errors
    ///
    /// As [`protect`](Self::protect).
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

    /// `TOLD`: whether `seen` does anything.
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
                            // Until the place in the shared table is given up, no page counts as had alone.
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

    /// Changes the pages of one last-level table, which is this address space's own; where processors may remember what they allowed.
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
        // In registers while the loop runs.
        let mut known = *alike;
        let asks = each || only;
        // As many at once as are alike, where nobody asks about each.
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
                    // All but what says which frame.
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

/// Entries that are looked at together.
const CHUNK: usize = 8;

/// What is known of pages that are alike but for their frames, as neighbours mostly are.
#[derive(Clone, Copy)]
struct CachedChange {
    /// The bits of their entries beside the frame; all, which no entry has there, if there are no such pages yet.
    rest: u64,
    /// What these bits become; and what they become of those pages alone that are found to be writable.
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

    /// Changes the first of these entries, chunk by chunk, as long as all are of such pages; how many: none, if the processor may have something left to write
    /// there. The lock of their table is held.
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
            // Those bits that say which frame are the same in all entries: here it is known what the others are.
            if F::attr_bits(unlike) != 0 {
                break;
            }
            alike += CHUNK;
            if differ != 0 {
                for (slot, raw) in some.iter().zip(raw) {
                    // The processor has not written here since it was read. Release: as `LockedTable::store`.
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
    /// Changes a huge page; false if something else has come into its place.
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
