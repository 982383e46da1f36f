//! The areas of an address space: the only file that touches the tree.
//!
//! Ranges here are half-open and page-aligned, `start < end`. Counts of pages by kind are kept up with every
//! change, so that limits can be checked without walking.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

use crate::errno::Errno;
use crate::fallible::try_box;
use crate::flags::VmFlags;
use crate::standin::MapleTree;
use crate::vma::{Area, Vma};

/// Pages by kind, as `/proc/PID/status` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// All pages (`VmSize`).
    pub total: u64,
    /// Private writable pages that are no stack (`VmData`).
    pub data: u64,
    /// Executable pages that are not writable (`VmExe` and `VmLib`).
    pub exec: u64,
    /// Pages of areas that grow downwards (`VmStk`).
    pub stack: u64,
    /// Locked pages (`VmLck`).
    pub locked: u64,
    /// Pages counted against the commit limit.
    pub accounted: u64,
}

impl PageCounts {
    fn of(flags: VmFlags, pages: u64) -> Self {
        let if_set = |condition: bool| if condition { pages } else { 0 };
        PageCounts {
            total: pages,
            data: if_set(flags.is_data()),
            exec: if_set(flags.is_exec()),
            stack: if_set(flags.is_stack()),
            locked: if_set(flags.contains(VmFlags::LOCKED)),
            accounted: if_set(flags.contains(VmFlags::ACCOUNT)),
        }
    }

    fn add(&mut self, other: PageCounts) {
        self.total += other.total;
        self.data += other.data;
        self.exec += other.exec;
        self.stack += other.stack;
        self.locked += other.locked;
        self.accounted += other.accounted;
    }

    fn sub(&mut self, other: PageCounts) {
        self.total -= other.total;
        self.data -= other.data;
        self.exec -= other.exec;
        self.stack -= other.stack;
        self.locked -= other.locked;
        self.accounted -= other.accounted;
    }
}

/// Areas by address, with their counts.
#[derive(Debug)]
pub(crate) struct Vmas {
    tree: MapleTree<Box<Vma>>,
    count: usize,
    peak: usize,
    pages: PageCounts,
}

#[allow(clippy::borrowed_box, reason = "the tree holds boxes")]
fn area<'a>((range, vma): (RangeInclusive<u64>, &'a Box<Vma>)) -> Area<'a> {
    Area {
        start: *range.start(),
        end: *range.end() + 1,
        vma,
    }
}

impl Vmas {
    pub(crate) fn new() -> Self {
        Vmas {
            tree: MapleTree::with_gaps(),
            count: 0,
            peak: 0,
            pages: PageCounts::default(),
        }
    }

    /// Number of areas.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Largest number of areas that there ever was.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn pages(&self) -> PageCounts {
        self.pages
    }

    /// The first area that ends above `address`. O(log n).
    pub(crate) fn find(&self, address: u64) -> Option<Area<'_>> {
        self.tree.find(address..=u64::MAX).map(area)
    }

    /// The first area that intersects `[start, end)`. O(log n).
    pub(crate) fn find_in(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.tree.find(start..=end - 1).map(area)
    }

    /// The area that holds `address`. O(log n).
    pub(crate) fn at(&self, address: u64) -> Option<Area<'_>> {
        self.tree.find(address..=address).map(area)
    }

    /// The last area that starts below `address`. O(log n).
    pub(crate) fn before(&self, address: u64) -> Option<Area<'_>> {
        self.tree.find_rev(0..=address.checked_sub(1)?).map(area)
    }

    /// All areas, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.tree.iter().map(area)
    }

    /// Makes `[start, end)` one area with these attributes, over whatever is there. One change of the tree, so
    /// that nobody sees a hole; areas that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`; the map is then as before, except that an area around both ends may be cut at `end`.
    pub(crate) fn put(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let new = PageCounts::of(vma.flags, (end - start) >> 12);
        let boxed = try_box(vma)?;
        let (old, covered) = self.overlap(start, end)?;
        self.tree
            .store_range(start..=end - 1, boxed)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old);
        self.pages.add(new);
        self.count = self.count - covered + 1;
        self.peak = self.peak.max(self.count);
        Ok(())
    }

    /// Removes everything in `[start, end)`; areas that reach out of it are trimmed.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn clear(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.find_in(start, end).is_none() {
            return Ok(());
        }
        let (old, covered) = self.overlap(start, end)?;
        self.tree
            .erase_range(start..=end - 1)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old);
        self.count -= covered;
        Ok(())
    }

    /// Makes `address` a boundary between areas; true if it was not one.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn split(&mut self, address: u64) -> Result<bool, Errno> {
        let Some(whole) = self.at(address) else {
            return Ok(false);
        };
        if whole.start == address {
            return Ok(false);
        }
        let end = whole.end;
        let upper = try_box(whole.vma.try_clone()?)?;
        self.tree
            .store_range(address..=end - 1, upper)
            .map_err(|_| Errno::ENOMEM)?;
        self.count += 1;
        self.peak = self.peak.max(self.count);
        Ok(true)
    }

    /// Changes the attributes of the whole area that holds `address`. No merging, no allocation.
    pub(crate) fn edit(&mut self, address: u64, change: impl FnOnce(&mut Vma)) {
        let Some(Area { start, end, .. }) = self.at(address) else {
            return;
        };
        let pages = (end - start) >> 12;
        if let Some(vma) = self.tree.get_mut(address) {
            let old = PageCounts::of(vma.flags, pages);
            change(vma);
            let new = PageCounts::of(vma.flags, pages);
            self.pages.sub(old);
            self.pages.add(new);
        }
    }

    /// Lowest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_up(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.tree.gap_up(low..=high - 1, size)
    }

    /// Highest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_down(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.tree.gap_down(low..=high - 1, size)
    }

    /// Pages that a change of `[start, end)` replaces, and how many areas it covers completely. An area around
    /// the range is cut at `end` first, because the tree can trim an entry but not divide it.
    fn overlap(&mut self, start: u64, end: u64) -> Result<(PageCounts, usize), Errno> {
        if let Some(first) = self.at(start)
            && first.start < start
            && first.end > end
        {
            self.split(end)?;
        }
        let mut old = PageCounts::default();
        let mut covered = 0;
        let mut next = start;
        while let Some(area) = self.find_in(next, end) {
            let low = area.start.max(start);
            let high = area.end.min(end);
            old.add(PageCounts::of(area.vma.flags, (high - low) >> 12));
            covered += usize::from(low == area.start && high == area.end);
            next = area.end;
        }
        Ok((old, covered))
    }
}
