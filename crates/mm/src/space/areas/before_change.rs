//! What comes before a change that other threads may see, or that may have to be undone: locks are closed, and a journal is kept.

use alloc::boxed::Box;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::space::areas::{Areas, Shared};
use crate::space::counts::Counts;
use crate::space::journal::Journal;
use crate::space::vma::{Backing, Vma};
use crate::space::vma_cache::{Found, VmaCache};

/// The numbers that are kept up with the areas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    count: usize,
    peak: usize,
    pages: Counts,
    guarded_from: u64,
}

impl Areas {
    /// A handle for looking at the tree from anywhere, and what those who hold areas have found.
    pub(crate) fn share(&mut self) -> (Counted<Shared>, Option<Counted<VmaCache<Vma>>>) {
        // Faults of several threads come this way. Without memory they wait for one another.
        // SAFETY: no other writer; switching RCU mode on asks for nothing else.
        unsafe {
            self.shared.tree.reclaim().prepare();
            self.shared.tree.set_in_rcu(true);
        }
        self.concurrent = true;
        self.is_observed = true;
        if self.vma_cache.is_none() {
            self.vma_cache = Counted::try_new(VmaCache::new()).ok();
        }
        (self.shared.clone(), self.vma_cache.clone())
    }

    /// Comes before a change of a range and of the areas that reach into it, or of what changes in areas themselves.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept; nothing has changed.
    #[inline(always)]
    pub(crate) fn before_change(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.is_observed {
            self.prepare_change(start, end)?;
        }
        Ok(())
    }

    /// As [`note`](Self::before_change), where an area is about to be laid down: its lock is closed, too.
    ///
    /// # Errors
    /// As [`note`](Self::before_change).
    #[inline(always)]
    pub(super) fn before_insert(
        &mut self,
        start: u64,
        end: u64,
        vma: &mut Vma,
    ) -> Result<(), Errno> {
        if self.is_observed {
            self.close_new(vma);
            self.prepare_change(start, end)?;
        }
        Ok(())
    }

    /// Comes before every change: leaves RCU mode if nobody can look any more, closes the locks of the areas, and keeps the journal.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept.
    #[cold]
    #[inline(never)]
    fn prepare_change(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.concurrent && self.shared.is_alone() {
            // SAFETY: this is the only handle, and stays it during the borrow: no reader is about and none can come.
            // All that readers did happened before.
            unsafe { self.shared.tree.set_in_rcu(false) };
            self.concurrent = false;
            // Changes are no longer told.
            self.vma_cache = None;
            self.flush_retired();
        }
        self.close_locks(start, end);
        let Some(mut journal) = self.journal.take() else {
            self.is_observed = self.concurrent;
            return Ok(());
        };
        let copied = journal.begin(start, end).and_then(|()| {
            let copied = self.copy_old_areas(&mut journal, start, end);
            if copied.is_err() {
                // The change does not come.
                drop(journal.pop());
            }
            copied
        });
        self.journal = Some(journal);
        copied
    }

    /// Closes the locks of the areas that intersect `[start, end)`, and waits until no fault holds one. They stay closed until
    /// [`open_locks`](Self::open_locks). Does nothing while there is no other handle, since then nobody can hold one.
    #[inline(always)]
    pub(crate) fn close_locks(&mut self, start: u64, end: u64) {
        if self.concurrent {
            self.close_each_lock(start, end);
        }
    }

    #[cold]
    fn close_each_lock(&mut self, start: u64, end: u64) {
        self.locks_closed = true;
        let number = self.shared.calls.now();
        let mut flush = self.flush_at_end;
        for (range, vma) in self.writer().range(start..=end - 1) {
            vma.lock.close(number, || self.uncache(range, vma));
            flush |= !matches!(vma.backing, Backing::Anonymous);
        }
        self.flush_at_end = flush;
    }

    /// What is noted of an area that is being closed is taken away.
    #[cold]
    fn uncache(&self, range: RangeInclusive<u64>, vma: &Vma) {
        if let Some(vma_cache) = &self.vma_cache {
            vma_cache.remove(&Found {
                start: *range.start(),
                end: *range.end() + 1,
                area: NonNull::from(vma),
            });
        }
    }

    /// Closes the lock of an area that is about to be laid down.
    #[inline(always)]
    pub(super) fn close_new(&mut self, vma: &mut Vma) {
        if self.concurrent {
            self.locks_closed = true;
            vma.lock.close_new(self.shared.calls.now());
        }
    }

    /// The call has ended: all locks are open.
    #[inline]
    pub(crate) fn open_locks(&mut self) {
        if self.locks_closed {
            self.locks_closed = false;
            self.shared.calls.end();
            if self.flush_at_end {
                self.flush_retired();
            }
        }
    }

    /// Areas that have left the tree are freed as soon as nobody can see them any more.
    #[cold]
    fn flush_retired(&mut self) {
        self.flush_at_end = false;
        // SAFETY: the tree's one writer is borrowed.
        unsafe { self.shared.tree.reclaim().flush() };
    }

    /// Keeps a journal from now on.
    pub(crate) fn start_journal(&mut self, journal: Box<Journal>) {
        self.journal = Some(journal);
        self.is_observed = true;
    }

    /// The journal that is kept.
    pub(crate) fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_deref_mut()
    }

    /// Keeps it no longer; its nodes can be had by writes now.
    pub(crate) fn end_journal(&mut self) -> Option<Box<Journal>> {
        self.is_observed = self.concurrent;
        let mut journal = self.journal.take()?;
        // SAFETY: they came from this allocator, in `copy_old_areas`.
        unsafe { journal.nodes.release(self.shared.tree.allocator()) };
        Some(journal)
    }

    /// Copies what a change that was begun concerns, and sets nodes aside to put it back.
    #[cold]
    fn copy_old_areas(&self, journal: &mut Journal, start: u64, end: u64) -> Result<(), Errno> {
        let mut next = start;
        while let Some(area) = self.find_in(next, end) {
            journal.copy(&area)?;
            next = area.end;
        }
        let nodes = self.nodes_for(journal.writes);
        journal
            .nodes
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
    pub(crate) fn roll_back(&mut self, journal: &mut Journal, before: Figures) {
        // What the call had laid down goes.
        self.flush_at_end = self.concurrent;
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
}
