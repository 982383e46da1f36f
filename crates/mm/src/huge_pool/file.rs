//! A file of hugetlbfs as the pool knows it: its pages and its reservations.

use alloc::vec::Vec;

use crate::errno::Errno;
use crate::heap::counted::{Counted, Weak};
use crate::huge_pool::lock::Spin;
use crate::huge_pool::slots::Page;
use crate::huge_pool::{HugePool, Size};

/// The pages of a file. Lives as long as a process has the file open or maps it.
pub(crate) struct HugeFile {
    pool: HugePool,
    size: Size,
    inner: Spin<Inner>,
}

struct Inner {
    /// The size of the file.
    bytes: u64,
    /// Pages by number in the file, ascending. `Some` has the count of pages that the file had made
    /// before this one; `None` is a reservation.
    pages: Vec<(u64, Option<u64>)>,
    /// The number of pages ever made.
    made: u64,
    /// Copies that private mappings have in place of the file's pages, by page number.
    copies: Vec<(u64, Weak<Page>)>,
}

impl Inner {
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&number, |page| page.0)
    }

    fn there(&self, number: u64) -> Option<u64> {
        self.pages.get(self.find(number).ok()?)?.1
    }
}

impl HugeFile {
    pub(crate) fn new(pool: HugePool, size: Size, bytes: u64) -> Self {
        let inner = Inner {
            bytes,
            pages: Vec::new(),
            made: 0,
            copies: Vec::new(),
        };
        HugeFile {
            pool,
            size,
            inner: Spin::new(inner),
        }
    }

    /// Reserves `count` pages from `first`, except those that the file has or has reserved already.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn reserve(&self, first: u64, count: u64) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        let end = first.saturating_add(count);
        let from = inner.pages.partition_point(|page| page.0 < first);
        let known = inner.pages.partition_point(|page| page.0 < end) - from;
        let missing = count - known as u64;
        self.pool.reserve(self.size, missing)?;
        let room = usize::try_from(missing).map_err(|_| Errno::ENOMEM);
        let room = room.and_then(|room| {
            let grown = inner.pages.try_reserve(room);
            grown.map_err(|_| Errno::ENOMEM)
        });
        if room.is_err() {
            self.pool.unreserve(self.size, missing);
            return room;
        }
        for number in first..end {
            if let Err(index) = inner.find(number) {
                inner.pages.insert(index, (number, None));
            }
        }
        Ok(())
    }

    /// Extends the file to the byte `end`, because a writable mapping reaches there.
    pub(crate) fn extend(&self, end: u64) {
        let mut inner = self.inner.lock();
        inner.bytes = inner.bytes.max(end);
    }

    /// Returns `true` if the page with this number lies within the file.
    pub(crate) fn reaches(&self, number: u64) -> bool {
        number < self.inner.lock().bytes / self.size.bytes()
    }

    /// Returns the identity of the page with this number, if the file has it. A page that replaces
    /// it has another identity.
    pub(crate) fn there(&self, number: u64) -> Option<u64> {
        self.inner.lock().there(number)
    }

    /// Makes the file have the page with this number, and returns its identity.
    ///
    /// # Errors
    /// `EFAULT` if none is available.
    pub(crate) fn fault(&self, number: u64) -> Result<u64, Errno> {
        let mut inner = self.inner.lock();
        if let Some(which) = inner.there(number) {
            return Ok(which);
        }
        let which = inner.made;
        match inner.find(number) {
            Ok(index) => {
                self.pool.take(self.size, true).map_err(|_| Errno::EFAULT)?;
                if let Some(page) = inner.pages.get_mut(index) {
                    page.1 = Some(which);
                }
            }
            Err(index) => {
                inner.pages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.pool
                    .take(self.size, false)
                    .map_err(|_| Errno::EFAULT)?;
                inner.pages.insert(index, (number, Some(which)));
            }
        }
        inner.made += 1;
        Ok(which)
    }

    /// Records that a private mapping has a copy in place of the page with this number.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn stands_for(&self, number: u64, page: &Counted<Page>) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        if inner.copies.len() == inner.copies.capacity() {
            inner.copies.retain(|(_, page)| page.upgrade().is_some());
            inner.copies.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        }
        inner.copies.push((number, page.downgrade()));
        Ok(())
    }

    /// Removes the pages from `first` up to `end` (exclusive) from the file and from all mappings.
    /// Reservations stay.
    pub(crate) fn punch(&self, first: u64, end: u64) {
        let mut inner = self.inner.lock();
        let returns = !self.size.of_each(&self.pool.surplus());
        inner.copies.retain(|(number, page)| {
            let goes = (first..end).contains(number);
            if goes && let Some(page) = page.upgrade() {
                page.tear(returns);
            }
            !goes
        });
        inner.pages.retain(|&(number, there)| {
            let goes = there.is_some() && (first..end).contains(&number);
            if goes {
                self.pool.give(self.size, false);
            }
            !goes
        });
    }
}

impl Drop for HugeFile {
    fn drop(&mut self) {
        let inner = self.inner.lock();
        let there = inner.pages.iter().filter(|page| page.1.is_some()).count() as u64;
        let promised = inner.pages.len() as u64 - there;
        self.pool.give_all(self.size, there, promised);
    }
}
