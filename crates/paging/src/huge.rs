//! Splitting and collapsing huge pages.

use crate::atomic::Ordering;

use crate::cursor::{Cursor, Stop};
use crate::entry::{Attrs, ENTRIES, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::map::Source;
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::prealloc::Preallocation;
use crate::share::release_leaf;
use crate::space::PageTables;

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Splits the leaf at `addr` and `level` into 512 of the level below, if it is still there. No
    /// count changes, because each frame was counted.
    pub(crate) fn split(
        &mut self,
        addr: u64,
        level: usize,
        prealloc: &mut PreallocTables<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<(), Error> {
        let below = prealloc.take()?;
        let Ok(upper) = self.lock(addr, level) else {
            prealloc.give(below);
            return Ok(());
        };
        let slot = index(addr, level);
        let raw = upper.load(slot);
        if !tag::is_page(raw) || F::is_table(raw) {
            prealloc.give(below);
            return Ok(());
        }
        let table = self.memory().table(below);
        let mut lower = table.lock();
        lower.add_used(ENTRIES as u32);
        let (start, end) = (addr & !(span(level) - 1), next(addr, level));
        let fill = |raw: u64| {
            let (phys, attrs) = (F::phys(raw), F::attrs(raw));
            let rest = F::attr_bits(F::leaf(0, attrs, level - 1));
            for i in 0..ENTRIES {
                let piece = F::frame_bits(phys + i as u64 * span(level - 1));
                table.slot(i).store(rest | piece, Ordering::Relaxed);
            }
        };
        let changed = Changed::PAGES | Changed::TABLES;
        if F::BREAK_BEFORE_MAKE {
            let old = upper.update::<F>(slot, raw, |raw| {
                F::leaf(F::phys(raw), F::attrs(raw) - Attrs::ACCESS, level)
            });
            gather.invalidate_now(start, end, changed);
            fill(old);
            upper.store(slot, F::table_entry(below, false));
            gather.notify_mapped(start, end, F::attrs(old));
        } else {
            // The processor may set the accessed or dirty bit until the entry changes. The parts
            // are then written again.
            upper.update::<F>(slot, raw, |raw| {
                fill(raw);
                F::table_entry(below, false)
            });
            gather.range(start, end, changed);
        }
        Ok(())
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Splits the huge page at an address into pages of this size. Does nothing if the page there
    /// is not larger.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] (nothing has changed then), [`Error::NotMapped`], [`Error::Misaligned`].
    pub fn split(&self, addr: u64, size: PageSize, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.split_with(addr, size, &mut Preallocation::none(self), tlb)
    }

    /// Preallocates the tables for [`split_with`](Self::split_with) with the same address and size;
    /// none if the page there is not larger.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], [`Error::Misaligned`].
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(2048)?, unsafe { Exclusive::new() }, 1 << 30, 2048)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let block = Source::Owned(memory.alloc_block(9, Kind::Anon)?);
    /// space.map(0x20_0000, PageSize::Large, block, Attrs::READ | Attrs::USER, &())?;
    ///
    /// let mut spare = space.preallocate_split(0x20_3000, PageSize::Small)?;
    /// memory.backing().refuse_after(Some(0)); // there is no memory any more
    /// space.split_with(0x20_3000, PageSize::Small, &mut spare, &())?;
    /// assert_eq!(space.page(0x20_3000).unwrap().size, PageSize::Small);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn preallocate_split(
        &self,
        addr: u64,
        size: PageSize,
    ) -> Result<Preallocation<'_, M>, Error> {
        let addr = addr & !(span(0) - 1);
        self.check_range(&(addr..addr.saturating_add(span(0))))?;
        let mut spare = Preallocation::none(self);
        if let Err(Stop { level, raw }) = self.cursor(addr).descend(addr, 0)
            && raw != 0
        {
            spare.tables.ensure(level.saturating_sub(size.level()))?;
        }
        Ok(spare)
    }

    /// Splits as [`split`](Self::split) does, with preallocated tables.
    ///
    /// # Errors
    ///
    /// As for [`split`](Self::split); [`Error::NoMemory`] only if the page was mapped after the
    /// tables were preallocated.
    pub fn split_with(
        &self,
        addr: u64,
        size: PageSize,
        spare: &mut Preallocation<'_, M>,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        let addr = addr & !(span(0) - 1);
        self.check_range(&(addr..addr.saturating_add(span(0))))?;
        let mut gather = self.gather(tlb);
        let prealloc = &mut spare.tables;
        let mut cursor = self.cursor(addr);
        loop {
            let Err(stop) = cursor.descend_from_root(addr, 0) else {
                return Ok(());
            };
            if stop.raw == 0 {
                return Err(Error::NotMapped);
            }
            if stop.level <= size.level() {
                return Ok(());
            }
            prealloc.ensure(stop.level - size.level())?;
            cursor.split(addr, stop.level, prealloc, &mut gather)?;
        }
    }

    /// Replaces everything mapped in the range of a huge page by that page. The old mappings are
    /// given up after the TLB invalidation. The caller provides the bytes: it makes the range
    /// read-only, copies, and then calls this.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the range has no unshared table of the level below, or a huge page
    /// already; [`Error::Exists`] if that table has tables below it, or markers;
    /// [`Error::Misaligned`], [`Error::TooMany`]. Nothing has changed then.
    pub fn collapse(
        &self,
        addr: u64,
        size: PageSize,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(size.bytes())))?;
        if size == PageSize::Small || !(addr | source.phys()).is_multiple_of(size.bytes()) {
            return Err(Error::Misaligned);
        }
        let memory = self.physical();
        let level = size.level();
        let mut gather = self.gather(tlb);
        let mut cursor = self.cursor(addr);
        let upper = cursor.lock(addr, level).map_err(|_| Error::NotMapped)?;
        let slot = index(addr, level);
        let raw = upper.load(slot);
        // Other roots point to the tables right below a kernel's root.
        let kept = level == Self::TOP && self.is_kernel();
        if !F::is_table(raw) || level == 1 && F::is_shared(raw) || kept {
            return Err(Error::NotMapped);
        }
        let table = memory.table(F::phys(raw));
        let mut below = table.lock();
        let leaf = |raw: u64| tag::is_page(raw) && (level == 1 || !F::is_table(raw));
        for i in 0..ENTRIES {
            let raw = below.load(i);
            if raw != 0 && !leaf(raw) {
                return Err(Error::Exists);
            }
        }
        source.count_all(memory.frames(), size)?;
        let changed = Changed::PAGES | Changed::TABLES;
        if F::BREAK_BEFORE_MAKE {
            upper.unlink(slot, F::leaf(source.phys(), Attrs::empty(), level));
            gather.invalidate_now(addr, next(addr, level), changed);
        }
        upper.unlink(slot, F::leaf(source.phys(), source.attrs(attrs), level));
        gather.range(addr, next(addr, level), changed);
        gather.notify_mapped(addr, next(addr, level), attrs);
        // Before the entries below are cleared: a walk that found them starts again from the root.
        self.bump_unlink_seq();
        for i in 0..ENTRIES {
            let raw = below.load(i);
            if raw != 0 {
                let old = below.update::<F>(i, raw, |_| 0);
                release_leaf::<F, M>(memory, old, level - 1, gather.deferred());
            }
        }
        let used = below.used();
        below.sub_used(used);
        drop(below);
        gather.retire_table(table.phys);
        Ok(())
    }
}
