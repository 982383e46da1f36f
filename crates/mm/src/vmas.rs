//! The areas of an address space: the only file that touches the tree.
//!
//! Ranges here are half-open and page-aligned, `start < end`. Counts of pages by kind are kept up with every
//! change, so that limits can be checked without walking.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

use maple_tree::{CloneError, MapleTree};

use crate::errno::Errno;
use crate::fallible::try_box;
use crate::flags::VmFlags;
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
    tree: MapleTree<u64, Box<Vma>>,
    count: usize,
    peak: usize,
    pages: PageCounts,
}

fn area((range, vma): (RangeInclusive<u64>, &Vma)) -> Area<'_> {
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
        self.tree.find(address..).map(area)
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
        self.tree.get_range(address).map(area)
    }

    /// The last area that starts below `address`. O(log n).
    pub(crate) fn before(&self, address: u64) -> Option<Area<'_>> {
        self.tree.find_rev(..address).map(area)
    }

    /// All areas, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.tree.iter().map(area)
    }

    /// Makes `[start, end)` one area with these attributes, over whatever is there. One change of the tree, so
    /// that nobody sees a hole; areas that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn put(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let new = PageCounts::of(vma.flags, (end - start) >> 12);
        let boxed = try_box(vma)?;
        let old = self.overlap(start, end);
        self.tree
            .store_range_splitting(start..=end - 1, boxed, |_, whole| copy(whole))
            .map_err(|_| Errno::ENOMEM)?;
        self.replace_counts(old, 1, new);
        Ok(())
    }

    /// Lets the area at `address` grow to `[start, end)`, over whatever is there besides. Allocates no area.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn grow(&mut self, address: u64, start: u64, end: u64) -> Result<(), Errno> {
        let Some(area) = self.at(address) else {
            return Err(Errno::ENOMEM);
        };
        let new = PageCounts::of(area.vma.flags, (end - start) >> 12);
        let old = self.overlap(start, end);
        match self.tree.grow(address, start..=end - 1, |_, old| drop(old)) {
            Ok(true) => {
                self.replace_counts(old, 1, new);
                Ok(())
            }
            _ => Err(Errno::ENOMEM),
        }
    }

    /// Removes everything in `[start, end)`; areas that reach out of it are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn clear(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let old = self.overlap(start, end);
        if old.pages.total == 0 {
            return Ok(());
        }
        self.tree
            .erase_range_splitting(start..=end - 1, |_, whole| copy(whole))
            .map_err(|_| Errno::ENOMEM)?;
        self.replace_counts(old, 0, PageCounts::default());
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

    /// A duplicate in which `change` has altered each area, or left it out by giving `false`.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing of the duplicate is left.
    pub(crate) fn try_clone_with(
        &self,
        mut change: impl FnMut(&mut Vma) -> bool,
    ) -> Result<Vmas, Errno> {
        let mut pages = PageCounts::default();
        let mut count = 0;
        let tree = self
            .tree
            .try_clone_with(|range, vma| {
                let mut vma = vma.try_clone()?;
                if !change(&mut vma) {
                    return Ok(None);
                }
                pages.add(PageCounts::of(
                    vma.flags,
                    (range.end() - range.start() + 1) >> 12,
                ));
                count += 1;
                try_box(vma).map(Some)
            })
            .map_err(|error| match error {
                CloneError::Alloc => Errno::ENOMEM,
                CloneError::Entry(errno) => errno,
            })?;
        Ok(Vmas {
            tree,
            count,
            peak: count,
            pages,
        })
    }

    /// Figures of the tree. O(n).
    pub(crate) fn tree_stats(&self) -> maple_tree::Stats {
        self.tree.stats()
    }

    /// Checks the tree's structure and the counts. O(n).
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.tree.check().map_err(|_| "the tree is damaged")?;
        let mut pages = PageCounts::default();
        let mut count = 0;
        for area in self.iter() {
            pages.add(PageCounts::of(area.vma.flags, area.len() >> 12));
            count += 1;
        }
        if count != self.count {
            return Err("the number of areas is wrong");
        }
        if pages != self.pages {
            return Err("a number of pages is wrong");
        }
        Ok(())
    }

    /// What a change of `[start, end)` replaces.
    fn overlap(&self, start: u64, end: u64) -> Overlap {
        let mut overlap = Overlap::default();
        for area in self.tree.range(start..=end - 1).map(area) {
            let low = area.start.max(start);
            let high = area.end.min(end);
            overlap
                .pages
                .add(PageCounts::of(area.vma.flags, (high - low) >> 12));
            // An area covered completely goes; one around both ends becomes two.
            overlap.covered += usize::from(low == area.start && high == area.end);
            overlap.divided |= low != area.start && high != area.end;
        }
        overlap
    }

    fn replace_counts(&mut self, old: Overlap, areas: usize, new: PageCounts) {
        self.pages.sub(old.pages);
        self.pages.add(new);
        self.count = self.count + areas + usize::from(old.divided) - old.covered;
        self.peak = self.peak.max(self.count);
    }
}

/// What a change replaces.
#[derive(Debug, Clone, Copy, Default)]
struct Overlap {
    pages: PageCounts,
    /// Areas that lie within.
    covered: usize,
    /// One area reaches out on both sides.
    divided: bool,
}

/// The upper part of an area that is divided.
fn copy(whole: &Vma) -> Option<Box<Vma>> {
    try_box(whole.try_clone().ok()?).ok()
}
