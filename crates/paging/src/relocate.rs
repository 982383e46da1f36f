//! Moving pages within an address space (`mremap`).

use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices, may_be_in_tlb};
use crate::entry::{Attrs, PAGE_SIZE, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::prealloc::Preallocation;
use crate::space::PageTables;
use crate::table::LockedTable;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Moves the mappings of `from .. from + len` to `to`, where nothing is mapped. Both ranges
    /// belong to the caller until this returns. Where source and destination have the same offset
    /// within 2 MiB, whole tables move. Huge pages move where both have the same offset within the
    /// page size, and are split elsewhere.
    ///
    /// Attributes, counts and markers do not change. The TLBs are invalidated once, for the old
    /// range.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if something is mapped at `to`, or the ranges overlap;
    /// [`Error::NoMemory`], [`Error::Misaligned`]. Nothing has changed then.
    pub fn move_range(
        &self,
        from: u64,
        to: u64,
        len: u64,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.move_range_with(from, to, len, &mut Preallocation::none(self), tlb)
    }

    /// Does the same with [preallocated](Self::preallocate_move) tables, so that it does not fail
    /// for lack of memory.
    ///
    /// # Errors
    ///
    /// As for [`move_range`](Self::move_range); [`Error::NoMemory`] only if the tables were
    /// preallocated for another move, or something was mapped in the old range since.
    pub fn move_range_with(
        &self,
        from: u64,
        to: u64,
        len: u64,
        spare: &mut Preallocation<'_, M>,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.relocate(from, to, len, &mut spare.tables, tlb, |_, _| {})
    }

    /// Does the same and reports the pages that it moved one by one, because their last-level table
    /// did not move as a whole. Preallocated tables are optional. `piecewise` receives the old and
    /// the new address, once for each pair of tables. Either table may have become empty and been
    /// removed.
    ///
    /// # Errors
    ///
    /// As for [`move_range_with`](Self::move_range_with).
    pub fn move_range_reporting(
        &self,
        from: u64,
        to: u64,
        len: u64,
        spare: Option<&mut Preallocation<'_, M>>,
        tlb: &dyn Invalidate,
        piecewise: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        match spare {
            Some(spare) => self.relocate(from, to, len, &mut spare.tables, tlb, piecewise),
            None => {
                let mut none = Preallocation::none(self);
                self.relocate(from, to, len, &mut none.tables, tlb, piecewise)
            }
        }
    }

    fn relocate(
        &self,
        from: u64,
        to: u64,
        len: u64,
        prealloc: &mut PreallocTables<'_, M>,
        tlb: &dyn Invalidate,
        mut piecewise: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let (range, there) = self.check_move(from, to, len)?;
        let mut gather = self.gather(tlb);
        let mut source = self.cursor(from);
        let mut dest = self.cursor(to);
        dest.count_missing(&there).and_then(|_| {
            let tables = source.count_for_dest(&mut dest, &range, to, true)?;
            prealloc.ensure(tables)
        })?;
        let shift = to.wrapping_sub(from);
        // Tables that were created and stayed empty. They are removed at the end, because they were
        // counted once and later steps may need them.
        let mut empty = 0..0;
        let mut made = |moved: bool, there: u64| {
            if !moved {
                let start = if empty.is_empty() { there } else { empty.start };
                empty = start..there + PAGE_SIZE;
            }
        };
        let mut at = from;
        while at < range.end {
            at = match source.descend(at, 0) {
                Ok(table) => {
                    let there = at.wrapping_add(shift);
                    let piece = (next(at, 1) - at)
                        .min(next(there, 1) - there)
                        .min(range.end - at);
                    let moved = if piece == span(1) {
                        move_entry(&mut source, &mut dest, at, there, 1, prealloc, &mut gather)?
                    } else {
                        // No table is created where the source is empty: none was counted.
                        let moved = table.is_empty(indices(at, at + piece))
                            || move_pages(
                                &mut source,
                                &mut dest,
                                at,
                                there,
                                piece,
                                prealloc,
                                &mut gather,
                            )?;
                        piecewise(at, there);
                        moved
                    };
                    made(moved, there);
                    at + piece
                }
                Err(Stop { level, raw: 0 }) => next(at, level),
                Err(Stop { level, .. }) => {
                    let whole = at & (span(level) - 1) == 0
                        && range.end - at >= span(level)
                        && shift & (span(level) - 1) == 0;
                    if !whole {
                        source.split(at, level, prealloc, &mut gather)?;
                        continue;
                    }
                    let there = at.wrapping_add(shift);
                    let moved = move_entry(
                        &mut source,
                        &mut dest,
                        at,
                        there,
                        level,
                        prealloc,
                        &mut gather,
                    )?;
                    made(moved, there);
                    next(at, level)
                }
            };
        }
        dest.prune_range(empty, &mut gather);
        Ok(())
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Checks two ranges of pages that must not overlap, and returns them.
    pub(crate) fn check_move(
        &self,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<(Range<u64>, Range<u64>), Error> {
        let end_of = |start: u64| start.checked_add(len).ok_or(Error::Misaligned);
        let range = from..end_of(from)?;
        let there = to..end_of(to)?;
        self.check_range(&range)?;
        self.check_range(&there)?;
        if range.start < there.end && there.start < range.end {
            return Err(Error::Exists);
        }
        Ok((range, there))
    }
}

/// Locks two tables of one level in the order of their addresses, or one table if they are the
/// same. Returns `None` if one of them does not exist.
fn lock_both<'a, F: Format, M: Memory>(
    a: &mut Cursor<'a, F, M>,
    at: u64,
    b: &mut Cursor<'a, F, M>,
    there: u64,
    level: usize,
) -> Option<(LockedTable<'a>, Option<LockedTable<'a>>)> {
    loop {
        let first = a.descend(at, level).ok()?.phys;
        let second = b.descend(there, level).ok()?.phys;
        let (x, y) = if first == second {
            let x = a.lock(at, level).ok()?;
            b.shared = a.shared;
            (x, None)
        } else if first < second {
            let x = a.lock(at, level).ok()?;
            (x, Some(b.lock(there, level).ok()?))
        } else {
            let y = b.lock(there, level).ok()?;
            (a.lock(at, level).ok()?, Some(y))
        };
        // Checks that these are still the tables whose order was determined.
        let same = y.as_ref().map_or(first, |y| y.table.phys) == second;
        if x.table.phys == first && same {
            return Some((x, y));
        }
        drop((x, y));
        a.reset();
        b.reset();
    }
}

/// Moves one entry of a level above the last: a whole table, or a huge page. Returns `false` if the
/// entry was empty; the destination's table may be empty then.
fn move_entry<'a, F: Format, M: Memory>(
    source: &mut Cursor<'a, F, M>,
    dest: &mut Cursor<'a, F, M>,
    at: u64,
    there: u64,
    level: usize,
    prealloc: &mut PreallocTables<'_, M>,
    gather: &mut Gather<'_, F, M>,
) -> Result<bool, Error> {
    drop(dest.lock_or_create(there, level, prealloc)?);
    let Some((mut from, mut to)) = lock_both(source, at, dest, there, level) else {
        return Ok(false);
    };
    let (slot, new) = (index(at, level), index(there, level));
    let raw = from.load(slot);
    if raw == 0 {
        return Ok(false);
    }
    let target = to.as_ref().unwrap_or(&from);
    if target.load(new) != 0 {
        return Err(Error::Exists);
    }
    let is_table = F::is_table(raw);
    // A change of an entry that points to a table needs that table's lock.
    let below = is_table.then(|| source.memory().table(F::phys(raw)).lock());
    let raw = if is_table {
        from.unlink(slot, 0);
        source.space.bump_unlink_seq();
        raw
    } else {
        from.update::<F>(slot, raw, |_| 0)
    };
    target.store(new, raw);
    source.space.bump_unlink_seq();
    if let Some(to) = &mut to {
        from.sub_used(1);
        to.add_used(1);
    }
    drop(below);
    let empty = from.used() == 0;
    drop((from, to));
    source.reset();
    let changed = if is_table {
        Changed::PAGES | Changed::TABLES
    } else {
        Changed::PAGES
    };
    gather.range(at, next(at, level), changed);
    gather.notify_mapped(there, next(there, level), Attrs::READ);
    if empty {
        source.prune_from(at, level, gather);
    }
    Ok(true)
}

/// Moves the entries of a part of one last-level table into a part of another. Returns `false` if
/// all were empty; the destination's table may be empty then.
fn move_pages<'a, F: Format, M: Memory>(
    source: &mut Cursor<'a, F, M>,
    dest: &mut Cursor<'a, F, M>,
    at: u64,
    there: u64,
    len: u64,
    prealloc: &mut PreallocTables<'_, M>,
    gather: &mut Gather<'_, F, M>,
) -> Result<bool, Error> {
    let (mut from, mut to) = loop {
        drop(dest.lock_unshared(there, prealloc, gather)?);
        let Some((from, to)) = lock_both(source, at, dest, there, 0) else {
            if source.descend_from_root(at, 0).is_err() {
                return Ok(false);
            }
            continue;
        };
        if source.shared {
            drop((from, to));
            source.unshare(at, prealloc, gather)?;
        } else if !dest.shared {
            break (from, to);
        }
    };
    let (mut first, mut last) = (u64::MAX, 0);
    let mut moved = 0;
    let new = index(there, 0);
    for (step, i) in indices(at, at + len).enumerate() {
        let raw = from.load(i);
        if raw == 0 {
            continue;
        }
        let target = to.as_ref().unwrap_or(&from);
        let old = from.update::<F>(i, raw, |_| 0);
        target.store(new + step, old);
        moved += 1;
        if tag::is_page(old) && may_be_in_tlb(old) {
            let addr = at + step as u64 * PAGE_SIZE;
            first = first.min(addr);
            last = addr + PAGE_SIZE;
        }
    }
    if last > 0 {
        gather.range(first, last, Changed::PAGES);
        gather.notify_mapped(there, there + len, Attrs::READ);
    }
    let mut emptied = false;
    if let Some(to) = &mut to {
        from.sub_used(moved);
        to.add_used(moved);
        emptied = from.used() == 0;
    }
    drop((from, to));
    if emptied {
        source.prune(at, gather);
    }
    Ok(moved > 0)
}
