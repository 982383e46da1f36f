//! Stretches of 2 MiB whose last-level table Linux still has although nothing is in it any more.
//!
//! Tables that become empty are given back here. Linux gives back a table when nothing is mapped in its stretch any more, or when `MADV_DONTNEED` discards all of the
//! stretch in one call (observed on 6.18), and not when its pages go one after the other. Two things tell the difference: where there is a table,
//! faults bring small pages though huge ones are advised, and `MADV_COLLAPSE` succeeds though no page is there.
//!
//! What is not noted: tables that Linux made and never filled, and those that stay behind when a part of what is in them is unmapped or moved.

use core::ops::Range;

use samara_paging::{Entry, PageSize};

use crate::flags::PMD_SIZE;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The first and the last page that an advice has taken away.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    first: u64,
    last: u64,
}

impl Gone {
    pub(super) fn new() -> Self {
        Gone {
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
    pub(super) fn note_gone(&self, range: &Range<u64>, gone: Gone, tables: bool) {
        if gone.first > gone.last {
            // Nothing was there; it may have been noted before.
            if tables && self.hollow().any() {
                self.note_whole(range);
            }
            return;
        }
        if tables {
            self.note_whole(range);
            let (first, last) = (gone.first & !(PMD_SIZE - 1), gone.last & !(PMD_SIZE - 1));
            self.note_part(range, first);
            if last != first {
                self.note_part(range, last);
            }
            return;
        }
        for stretch in stretches(&(gone.first..gone.last + 1)).step_by(PMD_SIZE as usize) {
            if self.tables.is_vacant(stretch, PageSize::Large) {
                self.hollow().set(stretch..stretch + PMD_SIZE);
            }
        }
    }

    #[inline]
    fn note_whole(&self, range: &Range<u64>) {
        let start = range.start.checked_next_multiple_of(PMD_SIZE);
        self.hollow()
            .clear(start.unwrap_or(u64::MAX)..range.end & !(PMD_SIZE - 1));
    }

    #[inline]
    fn note_part(&self, range: &Range<u64>, stretch: u64) {
        let whole = range.start <= stretch && range.end - stretch >= PMD_SIZE;
        if !whole && self.tables.is_vacant(stretch, PageSize::Large) {
            self.hollow().set(stretch..stretch.saturating_add(PMD_SIZE));
        }
    }

    /// What is mapped in a range is another now, or nothing.
    #[inline]
    pub(super) fn forget_hollow(&self, range: &Range<u64>) {
        if self.hollow().any() {
            self.hollow().clear(stretches(range));
        }
    }

    /// Whether Linux has a table for the 2 MiB from `start` on, in which nothing is.
    pub(super) fn is_hollow(&self, start: u64) -> bool {
        self.hollow().has(start) && self.tables.is_vacant(start, PageSize::Large)
    }

    /// A child gets tables for those of its parent, also where nothing is in them.
    pub(super) fn inherit_hollow(&self, child: &Self, range: Range<u64>) {
        let mut next = range.start;
        while let Some(first) = self.hollow().first_in(next..range.end) {
            let stretch = first & !(PMD_SIZE - 1);
            child.hollow().set(stretch..stretch + PMD_SIZE);
            next = stretch + PMD_SIZE;
        }
    }
}
