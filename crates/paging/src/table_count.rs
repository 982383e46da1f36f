//! Tables that are set aside before a call changes anything, so that it does not fail halfway.

use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices};
use crate::entry::{ENTRIES, index, next, span, tag};
use crate::error::Error;
use crate::format::{Format, MAX_LEVELS};
use crate::phys::Memory;
use crate::table::Table;

/// Tables of levels below `level` for `range`, of which there are none yet.
pub(crate) fn count_missing_below(level: usize, lowest: usize, range: &Range<u64>) -> usize {
    (lowest..level)
        .map(|level| {
            let shift = span(level + 1).trailing_zeros();
            (((range.end - 1) >> shift) - (range.start >> shift) + 1) as usize
        })
        .sum()
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// How many tables it takes, at most, before `range` can be filled with small pages; or `Exists`, if something is mapped there.
    pub(crate) fn count_missing(&mut self, range: &Range<u64>) -> Result<usize, Error> {
        let mut count = 0;
        let mut at = range.start;
        // Neighbouring holes that end within one upper table need that table once: each hole counts its own parts, which is never too few.
        while at < range.end {
            match self.descend(at, 0) {
                Ok(table) => {
                    let end = range.end.min(next(at, 1));
                    for i in indices(at, end) {
                        if table.read(i) != 0 {
                            return Err(Error::Exists);
                        }
                    }
                    if F::is_shared(self.parent_entry(0)) {
                        count += 1;
                    }
                    at = end;
                }
                Err(Stop { level, raw: 0 }) => {
                    let end = range.end.min(next(at, level));
                    count += count_missing_below(level, 0, &(at..end));
                    at = end;
                }
                Err(_) => return Err(Error::Exists),
            }
        }
        Ok(count)
    }

    /// How many tables it takes, at most, to have what `range` holds at `dest` of `to` as well, where nothing may be yet (`Exists`). `sharing`: tables of
    /// whole stretches of 2 MiB go there as they are.
    pub(crate) fn count_for_dest(
        &mut self,
        to: &mut Self,
        range: &Range<u64>,
        dest: u64,
        sharing: bool,
    ) -> Result<usize, Error> {
        // For each level, the place of the missing table that was counted last.
        let mut counted = [u64::MAX; MAX_LEVELS];
        self.count_for_pieces(range, dest, sharing, |piece, lowest| {
            to.count_missing_at(piece, lowest, &mut counted)
        })
    }

    /// The same, where `missing` tells how many tables are missing for a piece of the destination, down to a level.
    pub(crate) fn count_for_pieces(
        &mut self,
        range: &Range<u64>,
        dest: u64,
        sharing: bool,
        mut missing: impl FnMut(Range<u64>, usize) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let shift = dest.wrapping_sub(range.start);
        let mut count = 0;
        let mut at = range.start;
        while at < range.end {
            let (level, table, above) = match self.descend(at, 0) {
                Ok(table) => (1, Some(table), self.parent_entry(0)),
                Err(Stop { level, raw }) => (level, None, raw),
            };
            let leaf = table.is_none() && above != 0;
            let end = next(at, level).min(range.end);
            if above != 0 {
                let aligned = shift & (span(level) - 1) == 0;
                let whole = end - at == span(level) && aligned;
                let lowest = match (leaf, whole) {
                    (true, true) => level,
                    (false, true) if sharing => 1,
                    _ => 0,
                };
                if leaf && !whole {
                    // Divided: at its ends if it lies right, everywhere if not.
                    count += if level > 1 && shift & (span(1) - 1) != 0 {
                        ENTRIES + level
                    } else {
                        2 * level
                    };
                }
                if !leaf && F::is_shared(above) && !whole {
                    count += 1;
                }
                let mut piece = at;
                while piece < end {
                    // What one table of the lowest level takes in, there.
                    let start = piece.wrapping_add(shift);
                    let stop = next(start, lowest + 1).min(end.wrapping_add(shift));
                    let upto = piece + (stop - start);
                    // What goes one by one takes nothing where nothing is.
                    let none =
                        |table: Table<'_>| lowest == 0 && table.is_empty(indices(piece, upto));
                    if !table.is_some_and(none) {
                        count += missing(start..stop, lowest)?;
                    }
                    piece = upto;
                }
            }
            at = end;
        }
        Ok(count)
    }

    /// Tables that are missing before a part of one table of this level can be filled.
    pub(crate) fn count_missing_at(
        &mut self,
        range: Range<u64>,
        lowest: usize,
        counted: &mut [u64; MAX_LEVELS],
    ) -> Result<usize, Error> {
        let missing = match self.descend(range.start, lowest) {
            Ok(table) => {
                let first = index(range.start, lowest);
                let entries = (range.end - range.start).div_ceil(span(lowest)) as usize;
                if (first..first + entries).any(|i| table.read(i) != 0) {
                    return Err(Error::Exists);
                }
                return Ok(usize::from(
                    lowest == 0 && F::is_shared(self.parent_entry(0)),
                ));
            }
            Err(Stop { raw, .. }) if raw != 0 => return Err(Error::Exists),
            Err(Stop { level, .. }) => level,
        };
        let mut count = 0;
        for (level, counted) in counted.iter_mut().enumerate().take(missing).skip(lowest) {
            let place = range.start >> span(level + 1).trailing_zeros();
            if *counted != place {
                *counted = place;
                count += 1;
            }
        }
        Ok(count)
    }

    /// How many tables it takes, at most, before entries of `range` can be changed one by one: for huge pages that reach beyond it, and for
    /// shared tables, where those wholly within count only if `all`.
    pub(crate) fn count_for_change(&mut self, range: &Range<u64>, all: bool) -> usize {
        let mut count = 0;
        let mut at = range.start;
        while at < range.end {
            let (level, shared) = match self.descend(at, 0) {
                Ok(_) => (1, F::is_shared(self.parent_entry(0))),
                Err(Stop { level, raw: 0 }) => {
                    at = self.skip_hole(at, level, range.end);
                    continue;
                }
                Err(Stop { level, raw }) => {
                    let start = at & !(span(level) - 1);
                    let whole = start >= range.start && next(at, level) <= range.end;
                    if tag::is_page(raw) && !whole {
                        // At each end, one table of each level.
                        count += 2 * level;
                    }
                    (level, false)
                }
            };
            let end = next(at, level);
            if shared && (all || at & (span(1) - 1) != 0 || end > range.end) {
                count += 1;
            }
            at = end;
            if at == u64::MAX {
                break;
            }
        }
        count
    }
}
