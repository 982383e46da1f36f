//! Stretches of 2 MiB for which Linux retains a last-level table without pages.
//!
//! Samara frees a table when it becomes empty. Linux frees a table when nothing is mapped in its
//! stretch any more, or when one `MADV_DONTNEED` discards the whole stretch (observed on 6.18). It
//! keeps the table if its pages go one by one, or if they are unmapped or moved while another VMA
//! lies in the stretch. Programs see the difference in two ways. Where there is a table, faults map
//! small pages although huge pages are advised. And `MADV_COLLAPSE` succeeds although no page is
//! present.
//!
//! `mremap` moves a whole table if the old and the new address are both aligned to it. Otherwise
//! Linux makes a table at the new address wherever there is one at the old address, even an empty
//! one. The old table stays under the same conditions as any other.
//!
//! Not recorded: tables that Linux made for faults that failed, and tables of a child for VMAs
//! without a page.

use core::ops::Range;

use samara_paging::{Entry, PageSize};

use crate::flags::PMD_SIZE;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The first and the last page that an advice discarded.
#[derive(Clone, Copy)]
pub(super) struct Discarded {
    first: u64,
    last: u64,
}

impl Discarded {
    pub(super) fn new() -> Self {
        Discarded {
            first: u64::MAX,
            last: 0,
        }
    }

    /// Adds a page, in ascending order. A huge page has no table that could stay.
    #[inline]
    pub(super) fn add(&mut self, page: u64, entry: Entry) {
        if matches!(entry, Entry::Page { size, .. } if size != PageSize::Small) {
            return;
        }
        self.first = self.first.min(page);
        self.last = page;
    }
}

/// Returns the whole stretches that a range touches.
fn stretches(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(PMD_SIZE);
    range.start & !(PMD_SIZE - 1)..end.unwrap_or(u64::MAX)
}

impl<P: Platform> Mm<P> {
    /// Records that pages of a range were discarded. With `tables`, Linux frees the table of a
    /// stretch that the range covers.
    #[inline]
    pub(super) fn note_discarded(&self, range: &Range<u64>, discarded: Discarded, tables: bool) {
        if discarded.first > discarded.last {
            // Nothing was present, but a table may be recorded.
            if tables && self.retained_tables().any() {
                self.clear_whole(range);
            }
            return;
        }
        if tables {
            self.clear_whole(range);
            let (first, last) = (
                discarded.first & !(PMD_SIZE - 1),
                discarded.last & !(PMD_SIZE - 1),
            );
            self.retain_if_empty(range, first);
            if last != first {
                self.retain_if_empty(range, last);
            }
            return;
        }
        for stretch in stretches(&(discarded.first..discarded.last + 1)).step_by(PMD_SIZE as usize)
        {
            if self.tables.is_vacant(stretch, PageSize::Large) {
                self.retained_tables()
                    .set(stretch..stretch.saturating_add(PMD_SIZE));
            }
        }
    }

    #[inline]
    fn clear_whole(&self, range: &Range<u64>) {
        let start = range.start.checked_next_multiple_of(PMD_SIZE);
        self.retained_tables()
            .clear(start.unwrap_or(u64::MAX)..range.end & !(PMD_SIZE - 1));
    }

    #[inline]
    fn retain_if_empty(&self, range: &Range<u64>, stretch: u64) {
        let whole = range.start <= stretch && range.end - stretch >= PMD_SIZE;
        if !whole && self.tables.is_vacant(stretch, PageSize::Large) {
            self.retained_tables()
                .set(stretch..stretch.saturating_add(PMD_SIZE));
        }
    }

    /// Records that a range was unmapped. `emptied` says if the tables around its start and its
    /// end, which it covers in part, became empty. They are retained until
    /// [`clear_unneeded`](Self::clear_unneeded).
    #[inline]
    pub(super) fn note_unmapped(&self, range: &Range<u64>, emptied: [bool; 2]) {
        if emptied[0] {
            self.retain(range.start);
        }
        if emptied[1] {
            self.retain(range.end);
        }
    }

    /// Returns if the tables around the start and the end of a range became empty, from the removed
    /// pages.
    pub(super) fn emptied(&self, range: &Range<u64>, discarded: Discarded) -> [bool; 2] {
        let is = |at: u64, last: u64| {
            let base = at & !(PMD_SIZE - 1);
            at != base
                && discarded.first <= last
                && last & !(PMD_SIZE - 1) == base
                && self.tables.is_vacant(base, PageSize::Large)
        };
        [
            is(range.start, discarded.first),
            is(range.end, discarded.last),
        ]
    }

    /// Records a table around this address.
    #[cold]
    fn retain(&self, at: u64) {
        let stretch = at & !(PMD_SIZE - 1);
        if !self.retained_tables().has(stretch) {
            self.retained_tables()
                .set(stretch..stretch.saturating_add(PMD_SIZE));
        }
    }

    /// Records that pages moved from one table to another, one by one.
    pub(super) fn note_moved(&self, from: u64, to: u64) {
        for at in [from, to] {
            if self.tables.is_vacant(at, PageSize::Large) {
                self.retain(at);
            }
        }
    }

    /// Records that a range is about to move. Its retained tables move along, or others are made at
    /// the new address.
    #[inline]
    pub(super) fn move_retained(&self, from: u64, to: u64, len: u64) {
        if self.retained_tables().any() {
            self.move_each_retained(from, to, len);
        }
    }

    #[cold]
    fn move_each_retained(&self, from: u64, to: u64, len: u64) {
        let end = from + len;
        let mut next = from;
        while let Some(first) = self.retained_tables().first_in(next..end) {
            let stretch = first & !(PMD_SIZE - 1);
            let (start, upto) = (stretch.max(from), stretch.saturating_add(PMD_SIZE).min(end));
            let there = to.wrapping_add(start.wrapping_sub(from));
            self.retain(there);
            if upto - start == PMD_SIZE && there.is_multiple_of(PMD_SIZE) {
                self.retained_tables().clear(start..upto);
            } else {
                self.retain(there + (upto - start - 1));
            }
            next = upto;
        }
    }

    /// Removes tables that only serve an unmapped range. Nothing is mapped from `below` to `above`.
    pub(super) fn clear_unneeded(&self, range: &Range<u64>, below: u64, above: u64) {
        let first = (range.start & !(PMD_SIZE - 1)).max(below);
        let last = stretches(range).end.min(above) & !(PMD_SIZE - 1);
        if let Some(first) = first.checked_next_multiple_of(PMD_SIZE)
            && first < last
        {
            self.retained_tables().clear(first..last);
        }
    }

    /// Removes the table that a huge page replaces.
    #[inline]
    pub(super) fn forget_retained(&self, range: &Range<u64>) {
        if self.retained_tables().any() {
            self.retained_tables().clear(stretches(range));
        }
    }

    /// Returns `true` if Linux has a table without pages for the 2 MiB at `start`.
    pub(super) fn has_retained_table(&self, start: u64) -> bool {
        self.retained_tables().has(start) && self.tables.is_vacant(start, PageSize::Large)
    }

    /// Gives a child the retained tables of its parent.
    pub(super) fn inherit_retained(&self, child: &Self, range: Range<u64>) {
        let mut next = range.start;
        while let Some(first) = self.retained_tables().first_in(next..range.end) {
            let stretch = first & !(PMD_SIZE - 1);
            let end = stretch.saturating_add(PMD_SIZE);
            child.retained_tables().set(stretch..end);
            next = end;
        }
    }
}
