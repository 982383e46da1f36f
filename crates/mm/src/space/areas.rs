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
use crate::space::counts::{Class, Counts, Tally};
use crate::space::journal::Journal;
use crate::space::vma::{AnonVma, Area, Vma};
use crate::space::vma_lock::{Calls, VmaLock};

/// Areas by address.
type Tree = SyncMapleTree<u64, Box<Vma>, Waiting>;

/// What handles on the areas share.
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Calls are counted only while there is another handle.
    pub(crate) calls: Calls,
}

/// A place in the tree.
type Seat = maple_tree::Seat<u64>;

/// Areas by address, with their counts.
pub(crate) struct Areas {
    /// The one writer of `tree`, which never leaves this place; dropping it would do nothing. Not as itself: it refers to what the last
    /// handle drops, and a function that is given a reference (this structure by value, say) may rely on its target's
    /// outliving the function.
    writer: MaybeUninit<Writer<'static, u64, Box<Vma>, Waiting>>,
    shared: Counted<Shared>,
    /// How many changes have begun: what was found before the last of them says nothing any more.
    changes: u64,
    /// Where the last change was made, if it changed just a leaf: the next look is often near.
    near: Option<Seat>,
    /// The tree is in RCU mode, as it must be while there is another handle.
    concurrent: bool,
    /// That, or a journal is kept: a change is not to begin at once.
    watched: bool,
    /// A lock was closed since the last call ended.
    closed: bool,
    journal: Option<Box<Journal>>,
    count: usize,
    peak: usize,
    pages: Counts,
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
        Self::of(empty, 0, Counts::new(), u64::MAX)
    }

    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    fn of(tree: Tree, count: usize, pages: Counts, guarded_from: u64) -> Result<Self, Errno> {
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
            changes: 0,
            near: None,
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
        self.note(start, end)?;
        Ok(self.writer_now())
    }

    /// The tree, for a change that has been [noted](Self::note).
    #[inline(always)]
    fn writer_now(&mut self) -> &mut Writer<'static, u64, Box<Vma>, Waiting> {
        self.changes += 1;
        self.near = None;
        // SAFETY: as in `writer`.
        unsafe { self.writer.assume_init_mut() }
    }

    /// Comes before a change of a range and of the areas that reach into it, or of what changes in areas themselves.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept; nothing has changed.
    #[inline(always)]
    pub(crate) fn note(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.watched {
            self.settle(start, end)?;
        }
        Ok(())
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
        let writer = self.writer_now();
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

    pub(crate) fn pages(&self) -> &Counts {
        &self.pages
    }

    /// No area that keeps a gap below it free ([`VmFlags::KEEPS_GAP`]) begins below this address.
    pub(crate) fn guarded_from(&self) -> u64 {
        self.guarded_from
    }

    /// What lies in a range and directly beside it, in one walk. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn look(&self, span: &mut Span) -> Beside<'_> {
        self.look_around::<false, false>(span)
    }

    /// As [`look`](Self::look), and further up if nothing lies in the range.
    #[inline]
    pub(crate) fn look_ahead(&self, span: &mut Span) -> Beside<'_> {
        self.look_around::<false, true>(span)
    }

    /// As [`look`](Self::look), at the part of the range that lies in the first area there, to which it is cut down.
    #[inline]
    pub(crate) fn look_at_part(&self, span: &mut Span) -> Beside<'_> {
        self.look_around::<true, false>(span)
    }

    /// All that is found is written to where it stays at once: there is more of it than registers.
    #[inline(always)]
    fn look_around<const PART: bool, const AHEAD: bool>(&self, span: &mut Span) -> Beside<'_> {
        let mut beside = Beside::default();
        let (start, mut end) = (span.start, span.end);
        let Some(look) = self.look_from(start) else {
            return beside;
        };
        span.seat = Some(look.seat());
        span.changes = self.changes;
        if *look.here().0.start() == start
            && let Some((range, Some(vma))) = look.before()
        {
            beside.lower = Some(area((range, vma)));
        }
        for (range, vma) in look {
            let Some(vma) = vma else {
                if *range.end() >= end && !AHEAD {
                    break;
                }
                continue;
            };
            let area = area((range, vma));
            if area.start < end {
                if beside.first.is_none() {
                    beside.first = Some(area);
                    if PART {
                        if start < area.start {
                            span.start = area.start;
                            // It was looked at where there is nothing.
                            span.seat = None;
                            beside.lower = None;
                        }
                        end = end.min(area.end);
                        span.end = end;
                    }
                    if area.start < start {
                        beside.lower = Some(area);
                    }
                }
                let start = if PART { span.start } else { start };
                span.over.add(&area, start, end);
            }
            if area.end > end {
                beside.upper = Some(area);
                break;
            }
        }
        beside
    }

    /// What a removal of `[start, end)` concerns. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn overlap(&self, start: u64, end: u64) -> Span {
        let mut span = Span::new(start, end);
        let Some(look) = self.look_from(start) else {
            return span;
        };
        span.seat = Some(look.seat());
        span.changes = self.changes;
        for (range, vma) in look {
            if *range.start() >= end {
                break;
            }
            let last = *range.end();
            if let Some(vma) = vma {
                span.over.add(&area((range, vma)), start, end);
            }
            if last >= end - 1 {
                break;
            }
        }
        span
    }

    /// Areas and holes from `address` on. `None` in an empty tree.
    #[inline(always)]
    fn look_from(&self, address: u64) -> Option<maple_tree::Look<'_, u64, Box<Vma>>> {
        // SAFETY: `near` is forgotten by all changes but those that went on from it.
        unsafe { self.writer().look(self.near.as_ref(), address) }
    }

    /// The seat of a span, if the tree has not been changed since.
    #[inline(always)]
    fn fresh<'s>(&self, span: &'s Span) -> Option<&'s Seat> {
        span.seat.as_ref().filter(|_| span.changes == self.changes)
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

    /// Makes a range one area with these attributes, over whatever is there. One change of the tree, so
    /// that nobody sees a hole; areas that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline]
    pub(crate) fn put(&mut self, span: &Span, mut vma: Vma) -> Result<(), Errno> {
        let &Span { start, end, .. } = span;
        let over = &span.over;
        self.close_new(&mut vma);
        let flags = vma.flags;
        let boxed = try_box(vma)?;
        self.note(start, end)?;
        // Only now, so that its lock is closed, too.
        let twin = self.twin(span)?;
        self.discount(start, end, over);
        let refused = match self.fresh(span) {
            // SAFETY: a span is used with the areas that it comes from. What is fresh has been found there by a look at `start`, after which
            // the tree has not been changed: `writer_now` counts.
            Some(seat) => unsafe {
                let done = self
                    .writer_now()
                    .store_here(seat, (start, end - 1), boxed, twin);
                self.here(seat, done)
            },
            None => Err((boxed, twin)),
        };
        if let Err((boxed, twin)) = refused
            && !self.put_far(start, end, boxed, twin)
        {
            return Err(self.refused(start, end, over));
        }
        self.pages.add(Class::of(flags), (end - start) >> 12);
        self.count = self.count + 1 + over.kept as usize - over.areas as usize;
        self.grown(start, flags);
        Ok(())
    }

    /// Lets the area at `keeper` take in all of `[start, end)`: the part of it that is laid down anew, `span`, which is to have these flags, and areas that
    /// are like it, `joined` of them with itself. Allocates no area.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline]
    pub(crate) fn grow(
        &mut self,
        keeper: u64,
        (start, end): (u64, u64),
        span: &Span,
        joined: usize,
        flags: VmFlags,
    ) -> Result<(), Errno> {
        let over = &span.over;
        self.note(start, end)?;
        self.discount(span.start, span.end, over);
        let done = match self.fresh(span) {
            // SAFETY: as in `put`; the range begins with `span`, or with the area that ends there.
            Some(seat) => unsafe {
                let done = self.writer_now().grow_here(seat, keeper, (start, end - 1));
                self.here(seat, done.then_some(()).ok_or(())).is_ok()
            },
            None => false,
        };
        if !done && !self.grow_far(keeper, start, end) {
            return Err(self.refused(span.start, span.end, over));
        }
        self.pages
            .add(Class::of(flags), (span.end - span.start) >> 12);
        self.count = self.count + 1 - joined - over.covered();
        self.grown(start, flags);
        Ok(())
    }

    /// Removes everything in a range; areas that reach out of it are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn clear(&mut self, span: &Span) -> Result<(), Errno> {
        let &Span { start, end, .. } = span;
        let over = &span.over;
        if over.areas == 0 {
            return Ok(());
        }
        self.note(start, end)?;
        // Only now, so that its lock is closed, too.
        let twin = self.twin(span)?;
        self.discount(start, end, over);
        let refused = match self.fresh(span) {
            // SAFETY: as in `put`.
            Some(seat) => unsafe {
                let done = self.writer_now().erase_here(seat, (start, end - 1), twin);
                self.here(seat, done)
            },
            None => Err(twin),
        };
        if let Err(twin) = refused
            && !self.clear_far(start, end, twin)
        {
            return Err(self.refused(start, end, over));
        }
        self.count = self.count + over.kept as usize - over.areas as usize;
        self.peak = self.peak.max(self.count);
        Ok(())
    }

    /// After a change that went on from a seat: the next look may, too, if nothing but the leaf has changed.
    #[inline(always)]
    fn here<E>(&mut self, seat: &Seat, done: Result<(), E>) -> Result<(), E> {
        if done.is_ok() {
            self.near = Some(*seat);
        }
        done
    }

    /// The upper part of an area that a change of the span divides.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    fn twin(&self, span: &Span) -> Result<Option<Box<Vma>>, Errno> {
        if !span.over.is_divided() {
            return Ok(None);
        }
        let around = match self.fresh(span) {
            // SAFETY: as in `put`.
            Some(seat) => unsafe { self.writer().get_here(seat) },
            None => self.at(span.start).map(|area| area.vma),
        };
        around.map(|vma| try_box(vma.try_clone()?)).transpose()
    }

    /// As [`put`](Self::put), wherever it is. Tells whether there was memory.
    #[cold]
    fn put_far(&mut self, start: u64, end: u64, boxed: Box<Vma>, twin: Option<Box<Vma>>) -> bool {
        self.writer_now()
            .store_range_splitting(start..=end - 1, boxed, |_, _| twin)
            .is_ok()
    }

    /// As [`grow`](Self::grow), wherever it is. Tells whether there was memory.
    #[cold]
    fn grow_far(&mut self, keeper: u64, start: u64, end: u64) -> bool {
        self.writer_now().grow(keeper, start..=end - 1) == Ok(true)
    }

    /// As [`clear`](Self::clear), wherever it is. Tells whether there was memory.
    #[cold]
    fn clear_far(&mut self, start: u64, end: u64, twin: Option<Box<Vma>>) -> bool {
        self.writer_now()
            .erase_range_splitting(start..=end - 1, |_, _| twin)
            .is_ok()
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
        let old = Class::of(area.vma.flags);
        let start = area.start;
        let flags = vma.flags;
        self.writer_mut(address, address + 1)?
            .replace(address, vma)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old, pages);
        self.pages.add(Class::of(flags), pages);
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
        let mut pages = Counts::new();
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
                let len = range.end() - range.start() + 1;
                pages.add(Class::of(vma.flags), len >> 12);
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
        let mut pages = Counts::new();
        let mut count = 0;
        for area in self.iter() {
            pages.add(Class::of(area.vma.flags), area.len() >> 12);
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

    /// Takes the pages in `[start, end)`, which is `over`, off the counts, before a write removes them.
    #[inline(always)]
    fn discount(&mut self, start: u64, end: u64, over: &Overlap) {
        if !over
            .pages
            .classes(|class, pages| self.pages.sub(class, pages))
        {
            self.recount(start, end, Counts::sub);
        }
    }

    /// Puts them back, as the write has failed.
    #[cold]
    fn refused(&mut self, start: u64, end: u64, over: &Overlap) -> Errno {
        if !over
            .pages
            .classes(|class, pages| self.pages.add(class, pages))
        {
            self.recount(start, end, Counts::add);
        }
        Errno::ENOMEM
    }

    /// Counts the pages in `[start, end)` one by one.
    #[cold]
    fn recount(&mut self, start: u64, end: u64, change: fn(&mut Counts, Class, u64)) {
        let mut counts = self.pages;
        let show = |range, vma| {
            let area = area((range, vma));
            if area.start >= end {
                return ControlFlow::Break(());
            }
            let (low, high) = (area.start.max(start), area.end.min(end));
            change(&mut counts, Class::of(area.vma.flags), (high - low) >> 12);
            ControlFlow::Continue(())
        };
        let _ = self.writer().visit_from(start, show);
        self.pages = counts;
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
    pages: Counts,
    guarded_from: u64,
}

/// A range that may be changed, as a look at these areas, and no others, has found it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// First address.
    pub(crate) start: u64,
    /// First address beyond.
    pub(crate) end: u64,
    /// All areas in it.
    pub(crate) over: Overlap,
    /// Where it begins in the tree,
    seat: Option<Seat>,
    /// after how many changes.
    changes: u64,
}

impl Span {
    /// A range at which nobody has looked.
    #[inline(always)]
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Span {
            start,
            end,
            over: Overlap::default(),
            seat: None,
            changes: 0,
        }
    }
}

/// The areas in a range and beside it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// The area that begins below the range and ends where it begins, or in it, or above it.
    pub(crate) lower: Option<Area<'a>>,
    /// The first area in the range.
    pub(crate) first: Option<Area<'a>>,
    /// The area that ends above the range and begins in it, or where it ends; after [`Areas::look_ahead`] it may also begin above.
    pub(crate) upper: Option<Area<'a>>,
}

/// What a change of a range replaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overlap {
    /// The pages in the range.
    pub(crate) pages: Tally,
    /// Areas that intersect it.
    pub(crate) areas: u32,
    /// Pieces of them that lie outside of it: of one area around both ends, two.
    pub(crate) kept: u32,
    /// How many areas come before the first one that is sealed.
    pub(crate) sealed: Option<u32>,
}

impl Overlap {
    #[inline(always)]
    fn add(&mut self, area: &Area<'_>, start: u64, end: u64) {
        let (low, high) = (area.start.max(start), area.end.min(end));
        let flags = area.vma.flags;
        self.pages.add(Class::of(flags), (high - low) >> 12);
        if flags.contains(VmFlags::SEALED) {
            self.note_sealed();
        }
        self.areas += 1;
        self.kept += u32::from(area.start < start) + u32::from(area.end > end);
    }

    #[cold]
    fn note_sealed(&mut self) {
        self.sealed = self.sealed.or(Some(self.areas));
    }

    /// How many areas lie within the range.
    pub(crate) fn covered(&self) -> usize {
        self.areas.saturating_sub(self.kept) as usize
    }

    /// One area reaches out on both sides: it becomes two.
    pub(crate) fn is_divided(&self) -> bool {
        self.areas == 1 && self.kept == 2
    }
}

impl fmt::Debug for Areas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas")
            .field("tree", &self.shared.tree)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
