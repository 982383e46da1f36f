//! Sets of addresses, as ranges.

use core::ops::Range;

use maple_tree::MapleTree;

use crate::errno::Errno;

/// The value for the tree, which stores something one pointer wide.
static MARK: u8 = 0;

/// A set of addresses. Look-ups are O(log n) in its ranges.
#[derive(Debug)]
pub(crate) struct Ranges(MapleTree<u64, &'static u8>);

impl Ranges {
    pub(crate) fn new() -> Self {
        Ranges(MapleTree::new())
    }

    /// Returns `true` if the set is empty. O(1).
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(feature = "paging")]
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.0.get(address).is_some()
    }

    /// Returns the first range in `[start, end)`, trimmed to it.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<Range<u64>> {
        if self.is_empty() || start >= end {
            return None;
        }
        let (range, _) = self.0.find(start..end)?;
        let last = (*range.end()).min(end - 1);
        Some((*range.start()).max(start)..last + 1)
    }

    /// Adds `[start, end)`.
    ///
    /// # Errors
    /// `ENOMEM`; nothing has changed.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.0
            .store_range_splitting(start..end, &MARK, |_, mark| Some(mark))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Removes `[start, end)`.
    ///
    /// # Errors
    /// `ENOMEM`; nothing has changed.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.first_in(start, end).is_none() {
            return Ok(());
        }
        self.0
            .erase_range_splitting(start..end, |_, mark| Some(mark))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Returns a copy.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        self.0
            .try_clone_with(|_, mark| Ok(Some(mark)))
            .map(Ranges)
            .map_err(|_| Errno::ENOMEM)
    }
}
