//! The areas of an address space: the only file that changes the tree. (`shared.rs` looks into it from other threads.)
//!
//! Ranges here are half-open and page-aligned, `start < end`. Counts of pages by kind are kept up with every
//! change, so that limits can be checked without walking.
//!
//! # Readers beside the writer
//!
//! The tree is on the heap, counted, and there is one writer of it for all its life, which an exclusive borrow of [`Areas`] stands for.
//! [`Areas::share`] hands out further handles; those only read. While there is one, the tree is in RCU mode: nodes and areas are replaced,
//! not changed, and what they replace is freed after the readers that may see it have left. The first
//! change that finds no handle left switches RCU mode off, and changes are made in place again. An area's
//! owner of private pages is all that ever changes in an area that is in the tree; it is an atomic word.

use alloc::boxed::Box;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::RangeInclusive;

use maple_tree::{CloneError, SyncMapleTree, Waiting, Writer};

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::heap::counted::Counted;
use crate::space::vma::{AnonVma, Area, Vma};

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

/// Areas by address.
pub(crate) type Tree = SyncMapleTree<u64, Box<Vma>, Waiting>;

/// Areas by address, with their counts.
pub(crate) struct Areas {
    /// The one writer of `tree`, which never leaves this place; dropping it would do nothing. Not as itself: it refers to what the last
    /// handle drops, and a function that is given a reference (this structure by value, say) may rely on its target's
    /// outliving the function.
    writer: MaybeUninit<Writer<'static, u64, Box<Vma>, Waiting>>,
    tree: Counted<Tree>,
    /// The tree is in RCU mode, as it must be while there is another handle.
    concurrent: bool,
    count: usize,
    peak: usize,
    pages: PageCounts,
}

pub(crate) fn area((range, vma): (RangeInclusive<u64>, &Vma)) -> Area<'_> {
    Area {
        start: *range.start(),
        end: *range.end() + 1,
        vma,
    }
}

impl Areas {
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self, Errno> {
        let empty = SyncMapleTree::with_gaps(Waiting::new());
        Self::of(empty, 0, PageCounts::default())
    }

    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    fn of(tree: Tree, count: usize, pages: PageCounts) -> Result<Self, Errno> {
        // SAFETY:
        // - nobody else has the tree yet;
        // - while RCU mode is off there is one handle (`share` switches it on before there is a second, `settle` off when
        //   there is none left), and whoever writes through that one borrows it exclusively.
        unsafe { tree.set_in_rcu(false) };
        let tree = Counted::try_new(tree)?;
        // SAFETY:
        // - the view goes into `writer`, which is not used after the handle has been dropped, as both are fields of one structure;
        // - this is the only writer that is ever made of this tree: other handles are given to `SharedMap`, which
        //   reads; and it writes only when it is borrowed exclusively.
        let writer = unsafe { tree.detached().write_locked() };
        Ok(Areas {
            writer: MaybeUninit::new(writer),
            tree,
            concurrent: false,
            count,
            peak: count,
            pages,
        })
    }

    fn writer(&self) -> &Writer<'static, u64, Box<Vma>, Waiting> {
        // SAFETY: it has been there from the start, and what it refers to lives as long as the handle.
        unsafe { self.writer.assume_init_ref() }
    }

    fn writer_mut(&mut self) -> &mut Writer<'static, u64, Box<Vma>, Waiting> {
        // SAFETY: as in `writer`.
        unsafe { self.writer.assume_init_mut() }
    }

    /// A handle for looking at the tree from anywhere.
    pub(crate) fn share(&mut self) -> Counted<Tree> {
        // SAFETY: no other writer; switching it on asks for nothing else.
        unsafe { self.tree.set_in_rcu(true) };
        self.concurrent = true;
        self.tree.clone()
    }

    /// Comes before every change: leaves RCU mode if nobody can look any more.
    fn settle(&mut self) {
        if self.concurrent && self.tree.is_alone() {
            // SAFETY: this is the only handle, and stays it during the borrow: no reader is about and none can come.
            // All that readers did happened before.
            unsafe { self.tree.set_in_rcu(false) };
            self.concurrent = false;
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
        let mut at = address;
        // An area, or a hole and an area: two short walks down, for which an iterator is not worth setting up.
        loop {
            if let Some(found) = self.at(at) {
                return Some(found);
            }
            at = self.writer().hole_at(at)?.end().checked_add(1)?;
        }
    }

    /// The first area that intersects `[start, end)`. O(log n).
    pub(crate) fn find_in(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.find(start).filter(|area| area.start < end)
    }

    /// The area that holds `address`. O(log n).
    pub(crate) fn at(&self, address: u64) -> Option<Area<'_>> {
        self.writer().get_range(address).map(area)
    }

    /// The last area that starts below `address`. O(log n).
    pub(crate) fn before(&self, address: u64) -> Option<Area<'_>> {
        let mut at = address.checked_sub(1)?;
        loop {
            if let Some(found) = self.at(at) {
                return Some(found);
            }
            at = self.writer().hole_at(at)?.start().checked_sub(1)?;
        }
    }

    /// All areas, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.writer().iter().map(area)
    }

    /// The areas that intersect `[start, end)`, upwards. O(log n) for each: mostly they are few.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = Area<'_>> {
        let mut next = start;
        core::iter::from_fn(move || {
            let area = self.find_in(next, end)?;
            next = area.end;
            Some(area)
        })
    }

    /// Makes `[start, end)` one area with these attributes, over whatever is there. One change of the tree, so
    /// that nobody sees a hole; areas that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn put(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let new = PageCounts::of(vma.flags, (end - start) >> 12);
        self.settle();
        let boxed = try_box(vma)?;
        let old = self.overlap(start, end);
        self.writer_mut()
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
        self.settle();
        let Some(area) = self.at(address) else {
            return Err(Errno::ENOMEM);
        };
        let new = PageCounts::of(area.vma.flags, (end - start) >> 12);
        let old = self.overlap(start, end);
        match self.writer_mut().grow(address, start..=end - 1) {
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
        self.settle();
        self.writer_mut()
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
        self.settle();
        self.writer_mut()
            .store_range(address..=end - 1, upper)
            .map_err(|_| Errno::ENOMEM)?;
        self.count += 1;
        self.peak = self.peak.max(self.count);
        Ok(true)
    }

    /// Gives the whole area that holds `address` other attributes, with one store. No merging.
    ///
    /// # Errors
    /// `ENOMEM` if there is no area, and nothing has changed.
    pub(crate) fn replace(&mut self, address: u64, vma: Box<Vma>) -> Result<(), Errno> {
        self.settle();
        let Some(area) = self.at(address) else {
            return Err(Errno::ENOMEM);
        };
        let pages = area.len() >> 12;
        let old = PageCounts::of(area.vma.flags, pages);
        let new = PageCounts::of(vma.flags, pages);
        self.writer_mut()
            .replace(address, vma)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old);
        self.pages.add(new);
        Ok(())
    }

    /// Gives the whole area that holds `address`, if there is one, another owner of private pages. Allocates nothing.
    pub(crate) fn set_owner(&mut self, address: u64, owner: Option<AnonVma>) {
        if let Some(area) = self.at(address) {
            area.vma.anon.set(owner);
        }
    }

    /// Lowest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_up(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_up(low..=high - 1, size)
    }

    /// Highest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_down(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_down(low..=high - 1, size)
    }

    /// A duplicate in which `change` has altered each area, or left it out by giving `false`.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing of the duplicate is left.
    pub(crate) fn try_clone_with(
        &self,
        mut change: impl FnMut(&mut Vma) -> bool,
    ) -> Result<Areas, Errno> {
        let mut pages = PageCounts::default();
        let mut count = 0;
        let tree = self
            .writer()
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
        Self::of(
            SyncMapleTree::from_exclusive(tree, Waiting::new()),
            count,
            pages,
        )
    }

    /// Figures of the tree. O(n).
    pub(crate) fn tree_stats(&self) -> maple_tree::Stats {
        self.writer().stats()
    }

    /// Checks the tree's structure and the counts. O(n).
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.writer().check().map_err(|_| "the tree is damaged")?;
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
        for area in self.range(start, end) {
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

impl fmt::Debug for Areas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas")
            .field("tree", &*self.tree)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
