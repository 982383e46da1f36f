//! Pages go.

use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices, remembered, stretch_end};
use crate::entry::{Entry, PAGE_SIZE, index, next, span};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::reserve::Reserve;
use crate::share::forget_leaf;
use crate::space::PageTables;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Takes all pages and markers out of a range (in bytes, the end exclusive). Frames that nothing else has are freed, once the processors have been told; tables that become
    /// empty, once no walk can hold them.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: a huge page, or a stretch of 2 MiB whose table is shared, reaches beyond the range and needs tables to be divided. Nothing
    /// has changed then. [`Error::Misaligned`].
    ///
    /// Linear in the pages of the range that are there, and in the tables.
    pub fn unmap(&self, range: Range<u64>, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.unmap_with(range, tlb, |_, _| {})
    }

    /// The same, and `seen` is told of each page or marker that goes, with the processor's last word on its accessed and dirty bits.
    ///
    /// `seen` runs under the table's lock: it must not call these tables, nor wait. Of tables that are shared and given up as a whole it is not told,
    /// since their pages stay mapped by others.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap).
    pub fn unmap_with(
        &self,
        range: Range<u64>,
        tlb: &dyn Invalidate,
        mut seen: impl FnMut(u64, Entry),
    ) -> Result<(), Error> {
        Self::pages(&range)?;
        let mut gather = self.gather(tlb);
        let mut reserve = Reserve::none(self.physical());
        let mut cursor = self.cursor(range.start);
        reserve.ensure(cursor.needed(&range, false))?;
        let mut at = range.start;
        while at < range.end {
            at = match cursor.lock(at, 0) {
                Ok(table) => {
                    let end = stretch_end(at, range.end);
                    if cursor.shared {
                        drop(table);
                        if end - at == span(1) {
                            cursor.give_up(at, &mut gather);
                        } else {
                            cursor.unshare(at, &mut reserve, &mut gather)?;
                        }
                        continue;
                    }
                    let mut table = table;
                    let mut gone = 0;
                    let (mut first, mut last) = (u64::MAX, 0);
                    let frames = self.physical().frames();
                    for i in indices(at, end) {
                        let raw = table.load(i);
                        if raw == 0 {
                            continue;
                        }
                        let old = table.update::<F>(i, raw, |_| 0);
                        gone += 1;
                        let addr = (at & !(span(1) - 1)) + i as u64 * PAGE_SIZE;
                        if remembered(old) {
                            first = first.min(addr);
                            last = addr + PAGE_SIZE;
                        }
                        seen(addr, F::decode(old, 0));
                        if crate::entry::tag::holds(old) && !F::special(old) {
                            frames.unmap_leaf(F::phys(old), 0, gather.dead_list());
                        }
                    }
                    if last > 0 {
                        gather.range(first, last, Changed::PAGES);
                    }
                    table.sub_used(gone);
                    let empty = table.used() == 0;
                    drop(table);
                    if empty {
                        cursor.prune(at, &mut gather);
                    }
                    end
                }
                Err(Stop { level, raw: 0 }) => next(at, level),
                Err(Stop { level, .. }) => {
                    let start = at & !(span(level) - 1);
                    let end = next(at, level);
                    if start < range.start || end > range.end {
                        cursor.split(at, level, &mut reserve, &mut gather)?;
                    } else {
                        cursor.unmap_leaf(start, level, &mut gather, &mut seen);
                    }
                    continue;
                }
            };
        }
        Ok(())
    }
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Takes out a huge page, if it is still there.
    fn unmap_leaf(
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
        if remembered(old) {
            gather.range(addr, next(addr, level), Changed::PAGES);
        }
        seen(addr, F::decode(old, level));
        forget_leaf::<F, M>(self.memory(), old, level, gather.dead_list());
        let empty = table.used() == 0;
        drop(table);
        if empty {
            self.prune_from(addr, level, gather);
        }
    }
}
