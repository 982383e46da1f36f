//! Stretches of 2 MiB whose last-level table Linux still has although nothing is in it any more.
//!
//! Tables that become empty are given back here. Linux gives back a table when nothing is mapped in its stretch any more, or when `MADV_DONTNEED` discards all of the
//! stretch in one call (observed on 6.18), and not when its pages go one after the other, nor when they are unmapped or moved while another area lies in
//! the stretch. Two things tell the difference: where there is a table, faults bring small pages though huge ones are advised, and `MADV_COLLAPSE` succeeds
//! though no page is there.
//!
//! `mremap` takes a whole table along where the old and the new place both begin with it. Else Linux makes a table at the new place wherever there is one at the
//! old, be it empty, and the old one stays for as long as any other does.
//!
//! What is not noted: tables that Linux made for faults that failed, and a child's for areas without a page beside others that it did not get.

use core::ops::Range;

use samara_paging::{Entry, PageSize};

use crate::flags::PMD_SIZE;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The first and the last page that an advice has taken away.
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

    /// In ascending order. A huge page has no table that would stay.
    #[inline]
    pub(super) fn add(&mut self, page: u64, entry: Entry) {
        if matches!(entry, Entry::Page { size, .. } if size != PageSize::Small) {
            return;
        }
        self.first = self.first.min(page);
        self.last = page;
    }
}

/// The whole stretches that a range touches.
fn stretches(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(PMD_SIZE);
    range.start & !(PMD_SIZE - 1)..end.unwrap_or(u64::MAX)
}

impl<P: Platform> Mm<P> {
    /// Pages of a range have been discarded. `tables`: where the range holds all of a stretch, its table goes, too.
    #[inline]
    pub(super) fn note_discarded(&self, range: &Range<u64>, discarded: Discarded, tables: bool) {
        if discarded.first > discarded.last {
            // Nothing was there; it may have been noted before.
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

    /// A range has been unmapped. `emptied`: whether the tables around its start and its end, of which it holds a part, have nothing in them any more. They stay
    /// unless it is said that nothing else is mapped there.
    #[inline]
    pub(super) fn note_unmapped(&self, range: &Range<u64>, emptied: [bool; 2]) {
        if emptied[0] {
            self.retain(range.start);
        }
        if emptied[1] {
            self.retain(range.end);
        }
    }

    /// The same, told by what has discarded.
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

    /// Linux has a table around this address.
    #[cold]
    fn retain(&self, at: u64) {
        let stretch = at & !(PMD_SIZE - 1);
        if !self.retained_tables().has(stretch) {
            self.retained_tables()
                .set(stretch..stretch.saturating_add(PMD_SIZE));
        }
    }

    /// Pages have moved from one table to another, one by one.
    pub(super) fn note_moved(&self, from: u64, to: u64) {
        for at in [from, to] {
            if self.tables.is_vacant(at, PageSize::Large) {
                self.retain(at);
            }
        }
    }

    /// What is in a range is about to move. Tables without pages go along, or get others at the new place.
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

    /// A range has been left, with nothing mapped from `below` to `above`: tables that only serve what is between them are given back.
    pub(super) fn clear_unneeded(&self, range: &Range<u64>, below: u64, above: u64) {
        let first = (range.start & !(PMD_SIZE - 1)).max(below);
        let last = stretches(range).end.min(above) & !(PMD_SIZE - 1);
        if let Some(first) = first.checked_next_multiple_of(PMD_SIZE)
            && first < last
        {
            self.retained_tables().clear(first..last);
        }
    }

    /// There is a huge page in the place of a table.
    #[inline]
    pub(super) fn forget_retained(&self, range: &Range<u64>) {
        if self.retained_tables().any() {
            self.retained_tables().clear(stretches(range));
        }
    }

    /// Whether Linux has a table for the 2 MiB from `start` on, in which nothing is.
    pub(super) fn has_retained_table(&self, start: u64) -> bool {
        self.retained_tables().has(start) && self.tables.is_vacant(start, PageSize::Large)
    }

    /// A child gets tables for those of its parent, also where nothing is in them.
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
