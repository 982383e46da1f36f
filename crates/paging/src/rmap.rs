//! Pages go from all address spaces at once, also from tables that several of them use, without any memory.
//!
//! # Protocol
//!
//! What stands in a shared table is what each of its users maps there, since who changes anything gets a copy first. So where a page is to leave all of them (a
//! file has become shorter), it can be taken out of the table itself. But processors may remember it, of users that are not known here. It takes two visits to
//! every address space that maps the page:
//!
//! - [`rmap_revoke`](PageTables::rmap_revoke) leaves the page in a shared table without any access, and tells the processors of the address space that is visited, whether the
//!   page is hidden just now or was by an earlier visit. When all have been visited, no processor remembers it.
//! - [`rmap_unmap`](PageTables::rmap_unmap) takes out what is hidden, and gives up its frame.
//!
//! *Another user changes something in between.* It gets a copy of the table, in which the page is hidden as well, and its processors are told of the whole
//! stretch. If it makes the page accessible there, `rmap_unmap` finds that in a table of its own, and takes it out as [`unmap`](PageTables::unmap) does. Only if
//! that table is shared anew before, `rmap_unmap` finds a page in a shared table that is not hidden. It says so, and both visits are to be made again.

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
    /// The first of two visits that take pages out of all address spaces that map them at all, and need no memory; it concerns tables that are
    /// shared. Every address space that maps the pages is visited, and then each once more by [`rmap_unmap`](Self::rmap_unmap).
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

    /// The second visit: takes the pages out. False: one of them is in a shared table and not hidden, and both visits are to be made again.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: a huge page reaches beyond the range; it stays. [`Error::Misaligned`].
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
        // Dropped in the opposite order: what has been gathered is freed when the cursor's section is over.
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
                        // It stays empty, since each user needs a table of its own to map anything. If the others have left meanwhile, this one is found anew.
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

    /// Takes out of a shared table what is hidden; whether that was all.
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
    /// The shared table at `addr` is this address space's own, if it is its last user.
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
