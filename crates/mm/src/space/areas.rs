//! The areas of an address space: the only file that changes the tree. (`shared.rs` looks into it from other threads.)
//!
//! Ranges here are half-open and page-aligned, `start < end`. Counts of pages by kind are kept up with every
//! change, so that limits can be checked without walking.
//!
//! # Readers beside the writer
//!
//! The tree is on the heap, counted, and there is one writer of it for all its life, which an exclusive borrow of [`Areas`] stands for.
//! [`Areas::share`] hands out further handles; those only read. While there is one, the tree is in RCU mode: nodes and areas are replaced,
//! not changed, and what they replace is freed after the readers that may see it have left; and the lock of each area is closed before it is changed (see
//! `vma_lock`). The first
//! change that finds no handle left switches RCU mode off, and changes are made in place again. An area's
//! owner of private pages is all that ever changes in an area that is in the tree; it is an atomic word.

use alloc::boxed::Box;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{ControlFlow, RangeInclusive};

use maple_tree::{CloneError, SyncMapleTree, Waiting, Writer};

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::heap::counted::Counted;
use crate::space::journal::Journal;
use crate::space::vma::{AnonVma, Area, Vma};
use crate::space::vma_lock::{Calls, VmaLock};

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
type Tree = SyncMapleTree<u64, Box<Vma>, Waiting>;

/// What handles on the areas share.
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Calls are counted only while there is another handle.
    pub(crate) calls: Calls,
}

/// Areas by address, with their counts.
pub(crate) struct Areas {
    /// The one writer of `tree`, which never leaves this place; dropping it would do nothing. Not as itself: it refers to what the last
    /// handle drops, and a function that is given a reference (this structure by value, say) may rely on its target's
    /// outliving the function.
    writer: MaybeUninit<Writer<'static, u64, Box<Vma>, Waiting>>,
    shared: Counted<Shared>,
    /// The tree is in RCU mode, as it must be while there is another handle.
    concurrent: bool,
    /// That, or a journal is kept: a change is not to begin at once.
    watched: bool,
    /// A lock was closed since the last call ended.
    closed: bool,
    journal: Option<Box<Journal>>,
    count: usize,
    peak: usize,
    pages: PageCounts,
    /// No area that keeps a gap below it free begins below this address.
    guarded_from: u64,
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
        Self::of(empty, 0, PageCounts::default(), u64::MAX)
    }

    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    fn of(tree: Tree, count: usize, pages: PageCounts, guarded_from: u64) -> Result<Self, Errno> {
        // SAFETY:
        // - nobody else has the tree yet;
        // - while RCU mode is off there is one handle (`share` switches it on before there is a second, `settle` off when
        //   there is none left), and whoever writes through that one borrows it exclusively.
        unsafe { tree.set_in_rcu(false) };
        let shared = Counted::try_new(Shared {
            tree,
            calls: Calls::new(),
        })?;
        // SAFETY:
        // - the view goes into `writer`, which is not used after the handle has been dropped, as both are fields of one structure;
        // - this is the only writer that is ever made of this tree: other handles are given to `SharedMap`, which
        //   reads; and it writes only when it is borrowed exclusively.
        let writer = unsafe { shared.detached().tree.write_locked() };
        Ok(Areas {
            writer: MaybeUninit::new(writer),
            shared,
            concurrent: false,
            watched: false,
            closed: false,
            journal: None,
            count,
            peak: count,
            pages,
            guarded_from,
        })
    }

    fn writer(&self) -> &Writer<'static, u64, Box<Vma>, Waiting> {
        // SAFETY: it has been there from the start, and what it refers to lives as long as the handle.
        unsafe { self.writer.assume_init_ref() }
    }

    /// The tree, for a change of a range and of the areas that reach into it.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept; nothing has changed.
    #[inline(always)]
    fn writer_mut(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<&mut Writer<'static, u64, Box<Vma>, Waiting>, Errno> {
        if self.watched {
            self.settle(start, end)?;
        }
        // SAFETY: as in `writer`.
        Ok(unsafe { self.writer.assume_init_mut() })
    }

    /// As for a change of a range, of what changes in areas themselves.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept.
    #[inline(always)]
    pub(crate) fn note(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.writer_mut(start, end).map(|_| ())
    }

    /// A handle for looking at the tree from anywhere.
    pub(crate) fn share(&mut self) -> Counted<Shared> {
        // SAFETY: no other writer; switching it on asks for nothing else.
        unsafe { self.shared.tree.set_in_rcu(true) };
        self.concurrent = true;
        self.watched = true;
        self.shared.clone()
    }

    /// Comes before every change: leaves RCU mode if nobody can look any more, closes the locks of the areas, and keeps the journal.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.concurrent && self.shared.is_alone() {
            // SAFETY: this is the only handle, and stays it during the borrow: no reader is about and none can come.
            // All that readers did happened before.
            unsafe { self.shared.tree.set_in_rcu(false) };
            self.concurrent = false;
        }
        self.close(start, end);
        let Some(mut journal) = self.journal.take() else {
            self.watched = self.concurrent;
            return Ok(());
        };
        let copied = self.copy_before(&mut journal, start, end);
        self.journal = Some(journal);
        copied
    }

    /// Copies what a change of a range concerns, and sets nodes aside to put it back.
    #[cold]
    fn copy_before(&self, journal: &mut Journal, start: u64, end: u64) -> Result<(), Errno> {
        journal.begin(start, end)?;
        let mut next = start;
        while let Some(area) = self.find_in(next, end) {
            journal.copy(&area)?;
            next = area.end;
        }
        let nodes = self.nodes_for(journal.writes);
        journal
            .spare
            .fill(nodes, self.shared.tree.allocator())
            .map_err(|_| Errno::ENOMEM)
    }

    /// How many nodes more than now so many writes may take, one after the other.
    fn nodes_for(&self, writes: usize) -> usize {
        // At most three for each level, and two of a level more, which may come up meanwhile.
        let a_write = 4 * (self.writer().height() + 2);
        if self.concurrent {
            // What a write replaces comes back when the readers have left, which need not be soon.
            return writes * a_write;
        }
        // It comes back with the next batch. What stays: a write adds two slots to a leaf, so that it makes two of one at most; above, one where a
        // node was full, which is less often.
        const BATCHES: usize = 3 * 32;
        writes * 2 + 2 * a_write + BATCHES
    }

    /// Keeps a journal from now on.
    pub(crate) fn keep(&mut self, journal: Box<Journal>) {
        self.journal = Some(journal);
        self.watched = true;
    }

    /// The journal that is kept.
    pub(crate) fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_deref_mut()
    }

    /// Keeps it no longer; its nodes can be had by writes now.
    pub(crate) fn give_up(&mut self) -> Option<Box<Journal>> {
        self.watched = self.concurrent;
        let mut journal = self.journal.take()?;
        // SAFETY: they came from this allocator, in `copy_before`.
        unsafe { journal.spare.release(self.shared.tree.allocator()) };
        Some(journal)
    }

    /// The numbers that are kept up with the tree.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            count: self.count,
            peak: self.peak,
            pages: self.pages,
            guarded_from: self.guarded_from,
        }
    }

    /// Takes back what the journal has, last change first. Takes no memory but nodes that were set aside.
    pub(crate) fn put_back(&mut self, journal: &mut Journal, before: Figures) {
        // SAFETY: as in `writer`.
        let writer = unsafe { self.writer.assume_init_mut() };
        while let Some((change, areas)) = journal.pop() {
            // Upwards: what reaches into a range that is put back begins there, so that nothing is divided.
            let mut next = change.start;
            for (start, end, vma) in areas {
                let cleared = next == start || writer.erase_range(next..=start - 1).is_ok();
                let stored = writer.store_range(start..=end - 1, vma).is_ok();
                debug_assert!(cleared && stored, "no nodes to put an area back");
                next = end;
            }
            let cleared = next == change.end || writer.erase_range(next..=change.end - 1).is_ok();
            debug_assert!(cleared, "no nodes to clear a range");
        }
        self.count = before.count;
        self.peak = before.peak;
        self.pages = before.pages;
        self.guarded_from = before.guarded_from;
    }

    /// Closes the locks of the areas that intersect `[start, end)`, and waits until no fault holds one. They stay closed until
    /// [`reopen`](Self::reopen). Does nothing while there is no other handle, since then nobody can hold one.
    #[inline(always)]
    pub(crate) fn close(&mut self, start: u64, end: u64) {
        if self.concurrent {
            self.close_each(start, end);
        }
    }

    #[cold]
    fn close_each(&mut self, start: u64, end: u64) {
        self.closed = true;
        let number = self.shared.calls.now();
        for (_, vma) in self.writer().range(start..=end - 1) {
            vma.lock.close(number);
        }
    }

    /// Closes the lock of an area that is about to be laid down.
    #[inline(always)]
    fn close_new(&mut self, vma: &mut Vma) {
        if self.concurrent {
            self.closed = true;
            vma.lock.close_new(self.shared.calls.now());
        }
    }

    /// The call has ended: all locks are open.
    #[inline]
    pub(crate) fn reopen(&mut self) {
        if self.closed {
            self.closed = false;
            self.shared.calls.end();
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

    /// No area that keeps a gap below it free ([`VmFlags::KEEPS_GAP`]) begins below this address.
    pub(crate) fn guarded_from(&self) -> u64 {
        self.guarded_from
    }

    /// What lies at `[start, end)` and beside it, in one walk. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn look(&self, start: u64, end: u64) -> Look<'_> {
        self.look_around::<false>(start, end)
    }

    /// As [`look`](Self::look), at the part of `[start, end)` that lies in the first area there.
    #[inline]
    pub(crate) fn look_at_part(&self, start: u64, end: u64) -> Look<'_> {
        self.look_around::<true>(start, end)
    }

    #[inline(always)]
    fn look_around<const PART: bool>(&self, start: u64, end: u64) -> Look<'_> {
        // From the last address before: the area that ends at `start` is the first that is shown.
        let below = start.saturating_sub(1);
        let mut look = Look {
            start,
            end,
            lower: None,
            first: None,
            upper: None,
            over: Overlap::default(),
        };
        let show = |range, vma| {
            let area = area((range, vma));
            if area.end <= start {
                look.lower = Some(area);
                return ControlFlow::Continue(());
            }
            if area.start < look.end {
                if look.first.is_none() {
                    look.first = Some(area);
                    if PART {
                        look.start = start.max(area.start);
                        look.end = end.min(area.end);
                        look.lower = look.lower.filter(|lower| lower.end == look.start);
                    }
                    if area.start < start {
                        look.lower = Some(area);
                    }
                }
                look.over.add(&area, look.start, look.end);
            }
            if area.end <= look.end {
                return ControlFlow::Continue(());
            }
            look.upper = Some(area);
            ControlFlow::Break(())
        };
        let _ = self.writer().visit_from(below, show);
        look
    }

    /// What a removal of `[start, end)` concerns. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn overlap(&self, start: u64, end: u64) -> Overlap {
        let mut over = Overlap::default();
        let show = |range, vma| {
            let area = area((range, vma));
            if area.start >= end {
                return ControlFlow::Break(());
            }
            over.add(&area, start, end);
            if area.end < end {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let _ = self.writer().visit_from(start, show);
        over
    }

    /// The first area that ends above `address`. O(log n).
    pub(crate) fn find(&self, address: u64) -> Option<Area<'_>> {
        self.writer().find(address..).map(area)
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
        self.writer().find_rev(..address).map(area)
    }

    /// All areas, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.writer().iter().map(area)
    }

    /// Makes `[start, end)` one area with these attributes, over whatever is there: `over`. One change of the tree, so
    /// that nobody sees a hole; areas that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline]
    pub(crate) fn put(
        &mut self,
        start: u64,
        end: u64,
        over: &Overlap,
        mut vma: Vma,
    ) -> Result<(), Errno> {
        self.close_new(&mut vma);
        let flags = vma.flags;
        let boxed = try_box(vma)?;
        self.writer_mut(start, end)?
            .store_range_splitting(start..=end - 1, boxed, |_, whole| copy(whole))
            .map_err(|_| Errno::ENOMEM)?;
        self.replace_counts(over, PageCounts::of(flags, (end - start) >> 12));
        self.count = self.count + 1 + usize::from(over.divided) - over.covered;
        self.grown(start, flags);
        Ok(())
    }

    /// Lets the area at `keeper` take in all of a range: `over` and `flags` are what was and what is to be in the part of it that is laid down anew, `pages`
    /// that part's length; the areas that it joins are like it, `joined` of them with itself. Allocates no area.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn grow(
        &mut self,
        keeper: u64,
        (start, end): (u64, u64),
        over: &Overlap,
        joined: usize,
        flags: VmFlags,
        pages: u64,
    ) -> Result<(), Errno> {
        match self.writer_mut(start, end)?.grow(keeper, start..=end - 1) {
            Ok(true) => {}
            _ => return Err(Errno::ENOMEM),
        }
        self.replace_counts(over, PageCounts::of(flags, pages));
        self.count = self.count + 1 - joined - over.covered;
        self.grown(start, flags);
        Ok(())
    }

    /// Removes everything in `[start, end)`, which is `over`; areas that reach out of it are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn clear(&mut self, start: u64, end: u64, over: &Overlap) -> Result<(), Errno> {
        if over.areas == 0 {
            return Ok(());
        }
        self.writer_mut(start, end)?
            .erase_range_splitting(start..=end - 1, |_, whole| copy(whole))
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(over.pages);
        self.count = self.count + usize::from(over.divided) - over.covered;
        self.peak = self.peak.max(self.count);
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
        let mut upper = try_box(whole.vma.try_clone()?)?;
        self.close_new(&mut upper);
        self.writer_mut(address, end)?
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
    pub(crate) fn replace(&mut self, address: u64, mut vma: Box<Vma>) -> Result<(), Errno> {
        self.close_new(&mut vma);
        let Some(area) = self.at(address) else {
            return Err(Errno::ENOMEM);
        };
        let pages = area.len() >> 12;
        let old = PageCounts::of(area.vma.flags, pages);
        let start = area.start;
        let flags = vma.flags;
        self.writer_mut(address, address + 1)?
            .replace(address, vma)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old);
        self.pages.add(PageCounts::of(flags, pages));
        self.grown(start, flags);
        Ok(())
    }

    /// Gives the whole area that holds `address`, if there is one, another owner of private pages. Allocates nothing. A journal is not kept of
    /// it: see [`note`](Self::note).
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
                // Of another tree, with calls of its own.
                vma.lock = VmaLock::new();
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
            self.guarded_from,
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

    #[inline]
    fn replace_counts(&mut self, old: &Overlap, new: PageCounts) {
        if old.areas > 0 {
            self.pages.sub(old.pages);
        }
        self.pages.add(new);
    }

    /// An area with these properties begins at `start` now.
    fn grown(&mut self, start: u64, flags: VmFlags) {
        self.peak = self.peak.max(self.count);
        if flags.intersects(VmFlags::KEEPS_GAP) {
            self.guarded_from = self.guarded_from.min(start);
        }
    }
}

/// The numbers that are kept up with the areas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    count: usize,
    peak: usize,
    pages: PageCounts,
    guarded_from: u64,
}

/// A range, what lies in it, and its neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    /// First address.
    pub(crate) start: u64,
    /// First address beyond.
    pub(crate) end: u64,
    /// The area that begins below the range and ends where it begins, or in it, or above it.
    pub(crate) lower: Option<Area<'a>>,
    /// The first area in the range.
    pub(crate) first: Option<Area<'a>>,
    /// The first area that ends above the range. It may begin anywhere.
    pub(crate) upper: Option<Area<'a>>,
    /// All areas in the range.
    pub(crate) over: Overlap,
}

/// What a change of a range replaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overlap {
    /// The pages in the range.
    pub(crate) pages: PageCounts,
    /// Areas that intersect it.
    pub(crate) areas: usize,
    /// Areas that lie within.
    pub(crate) covered: usize,
    /// One area reaches out on both sides.
    pub(crate) divided: bool,
    /// How many areas come before the first one that is sealed.
    pub(crate) sealed: Option<usize>,
}

impl Overlap {
    #[inline]
    fn add(&mut self, area: &Area<'_>, start: u64, end: u64) {
        let (low, high) = (area.start.max(start), area.end.min(end));
        let flags = area.vma.flags;
        self.pages.add(PageCounts::of(flags, (high - low) >> 12));
        if flags.contains(VmFlags::SEALED) && self.sealed.is_none() {
            self.sealed = Some(self.areas);
        }
        self.areas += 1;
        // An area covered completely goes; one around both ends becomes two.
        let (head, tail) = (area.start < start, area.end > end);
        self.covered += usize::from(!head && !tail);
        self.divided |= head && tail;
    }
}

/// The upper part of an area that is divided.
fn copy(whole: &Vma) -> Option<Box<Vma>> {
    try_box(whole.try_clone().ok()?).ok()
}

impl fmt::Debug for Areas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas")
            .field("tree", &self.shared.tree)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
