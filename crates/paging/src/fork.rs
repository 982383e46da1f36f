//! A child's pages are its parent's.

use core::ops::Range;
use core::sync::atomic::Ordering;

use crate::cursor::{Cursor, Stop, indices, remembered, stretch_end};
use crate::entry::{ENTRIES, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::Format;
use crate::frames::Frames;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::reserve::Reserve;
use crate::space::PageTables;
use crate::table::{Locked, Table};

/// Who sees what is written to a page after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Only the writer: both sides lose permission to write, and copy at the first write.
    Private,
    /// Both sides.
    Shared,
}

/// Which pages a fork copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// All.
    All,
    /// Not clean pages of files: a fault brings them back.
    NotCleanFile,
    /// Neither clean pages of files nor the zero page: a fault brings them back.
    NotRestorable,
}

/// A leaf as the child gets it: counted, unless it is special; `None`: not copied. Inlined into the loop over a table's entries.
#[inline(always)]
fn child_leaf<F: Format>(
    frames: &Frames,
    zero: u64,
    raw: u64,
    order: u32,
    mapping: Mapping,
    copy: Copy,
) -> Result<Option<u64>, Error> {
    let phys = F::phys(raw);
    if F::special(raw) {
        // Device memory, memory mapped by its number, the zero page: nobody counts them.
        if copy == Copy::NotRestorable && phys == zero {
            return Ok(None);
        }
    } else {
        if copy != Copy::All && !frames.is_anon(phys) && F::clean(raw) == raw {
            return Ok(None);
        }
        if order == 0 {
            frames.map(phys)?;
        } else {
            frames.map_leaf(phys, order)?;
        }
    }
    Ok(Some(F::old(match mapping {
        Mapping::Private => F::write_protected(raw),
        Mapping::Shared => F::clean(raw),
    })))
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Copies what is mapped in a range (in bytes, the end exclusive) to the same addresses of `child`, where nothing is mapped yet. Markers go along. Counts are raised;
    /// of private mappings both sides lose permission to write. The parent's processors are told once; the child has none yet.
    ///
    /// Other calls may run beside this on the parent, faults too. The child is the caller's until it is handed out.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], [`Error::Exists`], [`Error::Misaligned`]: nothing has changed. [`Error::TooMany`]: a frame cannot be counted once more; the
    /// child is as before, the parent may have lost permission to write, which its next faults give back.
    ///
    /// Linear in the pages of the range that are there. A page that the parent has alone costs no locked instruction.
    pub fn copy_range(
        &self,
        child: &Self,
        range: Range<u64>,
        mapping: Mapping,
        copy: Copy,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        Self::pages(&range)?;
        let memory = self.physical();
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(memory);
        let mut from = self.cursor(range.start);
        let mut to = child.cursor(range.start);
        reserve.ensure(from.tables_elsewhere(&mut to, &range, range.start, false)?)?;
        let mut at = range.start;
        while at < range.end {
            match copy_step(
                &mut from,
                &mut to,
                at,
                range.end,
                mapping,
                copy,
                &mut reserve,
                &mut gather,
            ) {
                Ok(next) => at = next,
                Err(error) => {
                    drop((from, to));
                    gather.finish();
                    // What was copied so far: whole leaves, so that nothing has to be divided.
                    child.unmap(range.start..at, &())?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Copies what one last-level table, or one entry above it, says of `at ..`; the address to go on from.
#[allow(clippy::too_many_arguments)] // A loop's body, which sharing has in common with copying.
pub(crate) fn copy_step<F: Format, M: Memory>(
    from: &mut Cursor<'_, F, M>,
    to: &mut Cursor<'_, F, M>,
    at: u64,
    end: u64,
    mapping: Mapping,
    copy: Copy,
    reserve: &mut Reserve<'_, M>,
    gather: &mut Gather<'_, F, M>,
) -> Result<u64, Error> {
    match from.descend(at, 0) {
        Ok(_) => {
            let end = stretch_end(at, end);
            copy_table(from, to, at, end, mapping, copy, reserve, gather)?;
            Ok(end)
        }
        Err(Stop { level, raw: 0 }) => Ok(next(at, level).min(end)),
        Err(Stop { level, .. }) => {
            let start = at & !(span(level) - 1);
            if start < at || next(at, level) > end {
                from.split(at, level, reserve, gather)?;
                return Ok(at);
            }
            copy_huge(from, to, at, level, mapping, copy, reserve, gather)?;
            Ok(next(at, level))
        }
    }
}

/// Copies the entries of one last-level table. The tables of the two are locked one after the other, parent's first: the child's cannot be
/// reached but by this call.
#[allow(clippy::too_many_arguments)]
fn copy_table<F: Format, M: Memory>(
    from: &mut Cursor<'_, F, M>,
    to: &mut Cursor<'_, F, M>,
    at: u64,
    end: u64,
    mapping: Mapping,
    copy: Copy,
    reserve: &mut Reserve<'_, M>,
    gather: &mut Gather<'_, F, M>,
) -> Result<(), Error> {
    // A table of which the child has none yet is filled before anybody can find it.
    let fresh = to.descend(at, 0).is_err();
    let space = from.space;
    let Ok(parent) = from.lock(at, 0) else {
        return Ok(());
    };
    if parent.used() == 0 {
        return Ok(());
    }
    let shared = from.shared;
    let range = indices(at, end);
    let memory = space.physical();
    if fresh {
        let phys = reserve.take()?;
        let table = memory.table(phys);
        let filled = fill(
            from, &parent, shared, &table, range, true, at, mapping, copy, gather,
        );
        drop(parent);
        let result = match filled {
            Ok(used) if used > 0 => {
                table.lock().add_used(used);
                to.link(at, phys, reserve)
            }
            Ok(_) => {
                reserve.give(phys);
                return Ok(());
            }
            Err(error) => {
                reserve.give(phys);
                return Err(error);
            }
        };
        return result;
    }
    let mut child = to.lock_own(at, reserve, gather)?;
    let used = fill(
        from,
        &parent,
        shared,
        &child.table,
        range,
        false,
        at,
        mapping,
        copy,
        gather,
    )?;
    child.add_used(used);
    Ok(())
}

/// Fills a part of a child's table; if it is `whole`, the entries outside of it with nothing. Counts the entries in use; on error none.
#[allow(clippy::too_many_arguments)]
#[inline]
fn fill<F: Format, M: Memory>(
    from: &Cursor<'_, F, M>,
    parent: &Locked<'_>,
    shared: bool,
    child: &Table<'_>,
    range: Range<usize>,
    whole: bool,
    at: u64,
    mapping: Mapping,
    copy: Copy,
    gather: &mut Gather<'_, F, M>,
) -> Result<u32, Error> {
    let frames = from.memory().frames();
    let zero = from.memory().zero_page();
    let base = at & !(span(1) - 1);
    if whole {
        for i in (0..range.start).chain(range.end..ENTRIES) {
            child.slot(i).store(0, Ordering::Relaxed);
        }
    }
    let mut used = 0;
    let (mut first, mut last) = (ENTRIES, 0);
    let usual = mapping == Mapping::Private && copy == Copy::All;
    for i in range.clone() {
        let raw = parent.load(i);
        if usual && tag::holds(raw) && !F::special(raw) && frames.map_single(F::phys(raw)) {
            // A page that the parent had alone: no locked instruction, unless the processor may be writing into the entry.
            let guarded = F::write_protected(raw);
            child.slot(i).store(F::old(guarded), Ordering::Release);
            used += 1;
            if guarded != raw {
                parent.update::<F>(i, raw, F::write_protected);
                if !shared {
                    first = first.min(i);
                    last = i + 1;
                }
            }
            continue;
        }
        let new = if !tag::holds(raw) {
            raw
        } else {
            match child_leaf::<F>(frames, zero, raw, 0, mapping, copy) {
                Ok(leaf) => leaf.unwrap_or(0),
                Err(error) => {
                    for i in range.start..i {
                        let raw = child.load(i);
                        if tag::holds(raw) && !F::special(raw) {
                            frames.unmap_kept(F::phys(raw));
                        }
                        child.slot(i).store(0, Ordering::Release);
                    }
                    if last > 0 {
                        protected(gather, base, first, last);
                    }
                    return Err(error);
                }
            }
        };
        used += u32::from(new != 0);
        // Release: a walk of the child's that finds the entry finds the page's content.
        child.slot(i).store(new, Ordering::Release);
        if mapping == Mapping::Private && F::writable(raw) && tag::holds(raw) {
            parent.update::<F>(i, raw, F::write_protected);
            if remembered(raw) && !shared {
                first = first.min(i);
                last = i + 1;
            }
        }
    }
    if last > 0 {
        protected(gather, base, first, last);
    }
    Ok(used)
}

/// The parent has lost permission to write in these entries.
fn protected<F: Format, M: Memory>(
    gather: &mut Gather<'_, F, M>,
    base: u64,
    first: usize,
    last: usize,
) {
    let addr = |i: usize| base + i as u64 * PAGE_SIZE;
    gather.range(addr(first), addr(last), Changed::PAGES);
}

/// Copies a huge page.
#[allow(clippy::too_many_arguments)]
fn copy_huge<F: Format, M: Memory>(
    from: &mut Cursor<'_, F, M>,
    to: &mut Cursor<'_, F, M>,
    at: u64,
    level: usize,
    mapping: Mapping,
    copy: Copy,
    reserve: &mut Reserve<'_, M>,
    gather: &mut Gather<'_, F, M>,
) -> Result<(), Error> {
    let slot = index(at, level);
    let mut child = to.lock_or_make(at, level, reserve)?;
    if child.load(slot) != 0 {
        return Err(Error::Exists);
    }
    let Ok(parent) = from.lock(at, level) else {
        return Ok(());
    };
    let raw = parent.load(slot);
    if !tag::holds(raw) || F::is_table(raw) {
        return Ok(());
    }
    let order = PageSize::of(level).order();
    let zero = from.memory().zero_page();
    let leaf = match child_leaf::<F>(from.memory().frames(), zero, raw, order, mapping, copy) {
        Ok(Some(leaf)) => leaf,
        other => {
            let empty = child.used() == 0;
            drop((child, parent));
            if empty {
                // The child has no processors yet: what this gathers is only the table.
                to.prune_from(at, level, gather);
            }
            return other.map(|_| ());
        }
    };
    child.store(slot, leaf);
    child.add_used(1);
    if mapping == Mapping::Private && F::writable(raw) {
        parent.update::<F>(slot, raw, F::write_protected);
        if remembered(raw) {
            gather.range(at, next(at, level), Changed::PAGES);
        }
    }
    Ok(())
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Puts a filled last-level table, which nobody knows yet, into the tree.
    pub(crate) fn link(
        &mut self,
        addr: u64,
        table: u64,
        reserve: &mut Reserve<'_, M>,
    ) -> Result<(), Error> {
        let mut upper = self.lock_or_make(addr, 1, reserve)?;
        upper.store(index(addr, 1), F::table(table, false));
        upper.add_used(1);
        Ok(())
    }
}
