//! Reverse-mapping unmap: removes pages from every address space that maps them, without allocating
//! memory. It also works on tables that several address spaces share.
//!
//! # Protocol
//!
//! An entry of a shared table is mapped by each of its users, because a user that changes something
//! gets its own copy first. A page that must leave all users (its file was truncated) can therefore
//! be removed from the shared table itself. But processors that run the other users may have the
//! page in their TLBs, and those users are not known here. The removal takes two passes over every
//! address space that maps the page:
//!
//! - [`rmap_revoke`](PageTables::rmap_revoke) removes all access from the page in a shared table
//!   and invalidates the TLBs of the visited address space. It invalidates them even if an earlier
//!   visit had already revoked access. After all visits, no TLB holds the page.
//! - [`rmap_unmap`](PageTables::rmap_unmap) removes the entries without access and gives up their
//!   mappings.
//!
//! *Another user changes something between the passes.* It gets a copy of the table, in which the
//! page has no access either, and its TLBs are invalidated for the whole 2 MiB. If it makes the
//! page accessible there, `rmap_unmap` finds the page in an unshared table and removes it as
//! [`unmap`](PageTables::unmap) does. `rmap_unmap` finds an accessible page in a shared table only
//! if that table was shared again in between. It then returns `false`, and the caller repeats both
//! passes.

use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices, table_end};
use crate::entry::{PAGE_SIZE, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::pte_ref::without_access;
use crate::share::release_page;
use crate::space::PageTables;
use crate::table::LockedTable;
use crate::unmap::UnmapFilter;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Revokes access to the pages that match `filter` in shared tables: the first of two passes
    /// that remove pages from all address spaces. It needs no memory. The caller visits every
    /// address space that maps the pages, and then visits each again with
    /// [`rmap_unmap`](Self::rmap_unmap).
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`].
    pub fn rmap_revoke(
        &self,
        range: Range<u64>,
        filter: UnmapFilter,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_range(&range)?;
        let frames = self.physical().frames();
        // Dropped in the opposite order.
        let mut gather;
        let mut cursor = self.cursor(range.start);
        gather = self.gather(tlb);
        let mut at = range.start;
        while at < range.end {
            at = match cursor.lock(at, 0) {
                Ok(table) => {
                    let end = table_end(at, range.end);
                    if cursor.shared {
                        let base = at & !(span(1) - 1);
                        for i in indices(at, end) {
                            let raw = table.load(i);
                            if filter.matches::<F>(frames, raw, 0) {
                                table.update::<F>(i, raw, without_access::<F>);
                                let page = base + i as u64 * PAGE_SIZE;
                                gather.range(page, page + PAGE_SIZE, Changed::PAGES);
                            }
                        }
                    }
                    end
                }
                Err(Stop { level, raw: 0 }) => cursor.skip_hole(at, level, range.end),
                Err(Stop { level, .. }) => next(at, level),
            };
        }
        Ok(())
    }

    /// Removes the pages that match `filter`: the second pass. Returns `false` if a shared table
    /// holds one of them with access. The caller must then repeat both passes.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if a huge page reaches beyond the range, which stays mapped;
    /// [`Error::Misaligned`].
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageSize, PageTables, Physical, Source, UnmapFilter, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let one = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let page = memory.alloc_page(Kind::File)?; // a page cache's reference
    /// one.map(0x1000, PageSize::Small, Source::Counted(page), Attrs::READ | Attrs::USER, &())?;
    /// one.map(0x2000, PageSize::Small, Source::Owned(memory.alloc_page(Kind::Anon)?), Attrs::READ, &())?;
    /// let other = PageTables::<X86_64, _>::new(&memory, 2)?;
    /// one.share_range(&other, 0..0x20_0000, &())?;
    ///
    /// // The file is cut off, and there is no memory for another table.
    /// memory.backing().refuse_after(Some(0));
    /// let file = 0x1000..0x3000;
    /// assert!(one.unmap_with(file.clone(), UnmapFilter::FilePages, &(), |_, _| {}).is_err());
    /// for space in [&one, &other] {
    ///     space.rmap_revoke(file.clone(), UnmapFilter::FilePages, &())?;
    /// }
    /// for space in [&one, &other] {
    ///     assert!(space.rmap_unmap(file.clone(), UnmapFilter::FilePages, &())?);
    ///     assert!(space.translate(0x1000).is_none() && space.translate(0x2000).is_some());
    /// }
    /// assert_eq!(memory.frames().info(page).unwrap().mappings, 0);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn rmap_unmap(
        &self,
        range: Range<u64>,
        filter: UnmapFilter,
        tlb: &dyn Invalidate,
    ) -> Result<bool, Error> {
        self.check_range(&range)?;
        // Dropped in the opposite order: the gathered frames and tables are freed after the
        // cursor's section has ended.
        let mut gather;
        let mut cursor = self.cursor(range.start);
        gather = self.gather(tlb);
        let (mut complete, mut result) = (true, Ok(()));
        let mut at = range.start;
        while at < range.end {
            at = match cursor.lock(at, 0) {
                Ok(mut table) => {
                    let end = table_end(at, range.end);
                    let shared = cursor.shared;
                    if shared && table.users() == 1 {
                        drop(table);
                        cursor.keep(at);
                        continue;
                    }
                    if shared {
                        complete &=
                            self.rmap_unmap_entries(&mut table, at, end, filter, &mut gather);
                    } else {
                        let seen = &mut |_, _| {};
                        self.unmap_entries::<false>(&mut table, at, end, filter, &mut gather, seen);
                    }
                    let empty = table.used() == 0;
                    drop(table);
                    if empty && shared {
                        // The table stays empty, because each user needs its own table to map
                        // anything. If the others have left since then, the next round finds it
                        // unshared.
                        cursor.drop_shared::<false>(at, &mut gather, &mut |_, _| {});
                        continue;
                    }
                    if empty {
                        cursor.prune(at, &mut gather);
                    }
                    end
                }
                Err(Stop { level, raw: 0 }) => cursor.skip_hole(at, level, range.end),
                Err(Stop { level, raw }) => {
                    let start = at & !(span(level) - 1);
                    let end = next(at, level);
                    if !F::is_table(raw)
                        && filter.matches::<F>(self.physical().frames(), raw, level)
                    {
                        if start < range.start || end > range.end {
                            result = Err(Error::NoMemory);
                        } else {
                            cursor.unmap_leaf(start, level, &mut gather, &mut |_, _| {});
                        }
                    }
                    end
                }
            };
        }
        result.map(|()| complete)
    }

    /// Removes the filter's entries of `at..end` from a table. The table stays empty, because each
    /// user needs its own table to map anything. If the other users have left since then, the next
    /// round finds it unshared.
    fn rmap_unmap_entries(
        &self,
        table: &mut LockedTable<'_>,
        at: u64,
        end: u64,
        filter: UnmapFilter,
        gather: &mut Gather<'_, F, M>,
    ) -> bool {
        let memory = self.physical();
        let counts = memory.frames().counts();
        let (mut gone, mut complete) = (0, true);
        for i in indices(at, end) {
            let raw = table.load(i);
            if !filter.matches::<F>(memory.frames(), raw, 0) {
                continue;
            }
            if raw & tag::VALID != 0 {
                complete = false;
                continue;
            }
            table.store(i, 0);
            gone += 1;
            release_page::<F, M>(memory, counts, raw, gather.deferred());
        }
        table.sub_used(gone);
        complete
    }
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Clears the mark of the shared table at `addr` if this address space is its last user.
    fn keep(&mut self, addr: u64) {
        let Ok(upper) = self.lock(addr, 1) else {
            return;
        };
        let slot = index(addr, 1);
        let raw = upper.load(slot);
        if !F::is_table(raw) || !F::is_shared(raw) {
            return;
        }
        let table = self.memory().table(F::phys(raw)).lock();
        if table.users() == 1 {
            upper.store(slot, F::table_entry(table.table.phys, false));
            self.space.bump_generation();
        }
    }
}
