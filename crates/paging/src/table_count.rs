//! Upper bounds on the number of tables that a call needs. A call counts and preallocates its
//! tables before it changes an entry, so that it cannot fail halfway.

use core::ops::Range;

use crate::cursor::{Cursor, Stop, indices};
use crate::entry::{ENTRIES, index, next, span, tag};
use crate::error::Error;
use crate::format::{Format, MAX_LEVELS};
use crate::phys::Memory;
use crate::table::Table;

/// Returns the number of tables needed below `level`, down to `lowest`, for a range that has none
/// of them.
pub(crate) fn count_missing_below(level: usize, lowest: usize, range: &Range<u64>) -> usize {
    (lowest..level)
        .map(|level| {
            let shift = span(level + 1).trailing_zeros();
            (((range.end - 1) >> shift) - (range.start >> shift) + 1) as usize
        })
        .sum()
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Returns the most tables needed to fill `range` with small pages, or `Exists` if something is
    /// mapped there.
    pub(crate) fn count_missing(&mut self, range: &Range<u64>) -> Result<usize, Error> {
        let mut count = 0;
        let mut at = range.start;
        // Two neighbouring holes may end within one upper table, which each of them counts. The sum
        // is therefore never too small.
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

    /// Returns the most tables needed to copy or move the contents of `range` to `dest` of `to`, or
    /// `Exists` if something is mapped there. With `sharing`, last-level tables that lie wholly in
    /// the range are linked at the destination instead of being copied.
    pub(crate) fn count_for_dest(
        &mut self,
        to: &mut Self,
        range: &Range<u64>,
        dest: u64,
        sharing: bool,
    ) -> Result<usize, Error> {
        // For each level, the position of the missing table counted last.
        let mut counted = [u64::MAX; MAX_LEVELS];
        self.count_for_pieces(range, dest, sharing, |piece, lowest| {
            to.count_missing_at(piece, lowest, &mut counted)
        })
    }

    /// Does the same with `missing`, which returns the number of missing tables for a part of the
    /// destination, down to a level.
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
                    // A huge page that is split: at both ends if source and destination have the
                    // same alignment, otherwise everywhere.
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
                    // The part of the destination that one table of the lowest level covers.
                    let start = piece.wrapping_add(shift);
                    let stop = next(start, lowest + 1).min(end.wrapping_add(shift));
                    let upto = piece + (stop - start);
                    // Pages moved one by one need no table where the source is empty.
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

    /// Returns the number of tables that must be created before a part of one table of level
    /// `lowest` can be filled.
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

    /// Returns the most tables needed before entries of `range` can be changed one by one. They
    /// serve to split huge pages that reach beyond the range and to copy shared tables. Shared
    /// tables wholly within the range count only with `all`.
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
