//! Swap entries: a marker replaces a page, and a page replaces a marker.

use crate::cursor::{Cursor, may_be_in_tlb};
use crate::deferred_free::DeferredFree;
use crate::entry::{Attrs, PAGE_SIZE, index, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Gather, Invalidate};
use crate::map::Source;
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::share::release_leaf;
use crate::space::PageTables;
use crate::table::LockedTable;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Replaces a small page of private memory by a marker. Only this entry maps the frame, and
    /// nothing refers to it: the frame is freed. The caller has removed all
    /// [access](Attrs::ACCESS), so that the TLBs are invalidated, and has then copied the page's
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on the frame `old` is mapped there (any more), or if
    /// it is accessible; [`Error::Exists`] if the frame has other mappings or references, or is not
    /// private memory; [`Error::NoMemory`], [`Error::Misaligned`]. Nothing has changed then.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Change, Entry, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let page = memory.alloc_page(Kind::Anon)?;
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    /// space.map(0x1000, PageSize::Small, Source::Owned(page), attrs, &())?;
    ///
    /// space.protect(0x1000..0x2000, Change::without(Attrs::ACCESS), &())?;
    /// // It is written to the disk here.
    /// space.swap_out(0x1000, page, 7, &())?;
    /// assert_eq!(space.entry(0x1000), Entry::Marker(7));
    ///
    /// // A fault reads it again.
    /// let page = memory.alloc_page(Kind::Anon)?;
    /// space.swap_in(0x1000, 7, Source::Owned(page), attrs, &())?;
    /// assert_eq!(space.translate(0x1000), Some((page, attrs)));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn swap_out(
        &self,
        addr: u64,
        old: u64,
        marker: u32,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let memory = self.physical();
        let frames = memory.frames();
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(memory);
        let mut cursor = self.cursor(addr);
        let (table, level) = cursor.lock_page(addr, old, &mut prealloc, &mut gather)?;
        let slot = index(addr, level);
        let raw = table.load(slot);
        if level > 0 || may_be_in_tlb(raw) {
            return Err(Error::NotMapped);
        }
        if F::is_special(raw) || !frames.is_anon(old) || !frames.is_sole(old) {
            return Err(Error::Exists);
        }
        // The entry is invalid: no processor writes to it.
        table.store(slot, tag::marker(marker));
        let mut dead = DeferredFree::new();
        release_leaf::<F, M>(memory, raw, 0, &mut dead);
        drop(table);
        memory.free_deferred(&mut dead);
        Ok(())
    }

    /// Replaces this marker by a small page.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the marker is not there (any more); [`Error::NoMemory`],
    /// [`Error::Misaligned`], [`Error::TooMany`]. Nothing has changed then.
    ///
    /// An example is at [`swap_out`](Self::swap_out).
    pub fn swap_in(
        &self,
        addr: u64,
        marker: u32,
        source: Source,
        attrs: Attrs,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        if !source.phys().is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(memory);
        let mut cursor = self.cursor(addr);
        let table = cursor.lock_marker(addr, marker, &mut prealloc, &mut gather)?;
        source.count(memory.frames())?;
        let leaf = F::leaf(source.phys(), source.attrs(attrs), 0);
        table.store(index(addr, 0), leaf);
        drop(table);
        gather.notify_mapped(addr, addr + PAGE_SIZE, attrs);
        Ok(())
    }

    /// Clears this marker, and no other.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if it is not there (any more); [`Error::NoMemory`],
    /// [`Error::Misaligned`]. Nothing has changed then.
    pub fn clear_marker(&self, addr: u64, marker: u32, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(self.physical());
        let mut cursor = self.cursor(addr);
        let mut table = cursor.lock_marker(addr, marker, &mut prealloc, &mut gather)?;
        table.store(index(addr, 0), 0);
        table.sub_used(1);
        let empty = table.used() == 0;
        drop(table);
        if empty {
            cursor.prune(addr, &mut gather);
        }
        Ok(())
    }
}

impl<'a, F: Format, M: Memory> Cursor<'a, F, M> {
    /// Locks the table of this marker after unsharing it.
    fn lock_marker(
        &mut self,
        addr: u64,
        marker: u32,
        prealloc: &mut PreallocTables<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<LockedTable<'a>, Error> {
        loop {
            let table = self.lock(addr, 0).map_err(|_| Error::NotMapped)?;
            if tag::marker_payload(table.load(index(addr, 0))) != Some(marker) {
                return Err(Error::NotMapped);
            }
            if !self.shared {
                return Ok(table);
            }
            drop(table);
            self.unshare(addr, prealloc, gather)?;
        }
    }
}
