//! Preparation of a change that other threads may see or that may be undone: locks are closed, and
//! the journal is written.

use alloc::boxed::Box;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::space::areas::{Areas, Shared};
use crate::space::counts::Counts;
use crate::space::journal::Journal;
use crate::vma::vma_cache::{Found, VmaCache};
use crate::vma::{Backing, Vma};

/// The numbers that change with the VMAs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    count: usize,
    peak: usize,
    pages: Counts,
    guarded_from: u64,
}

impl Areas {
    /// Returns a handle for reading the tree from any thread, and the cache of VMAs.
    pub(crate) fn share(&mut self) -> (Counted<Shared>, Option<Counted<VmaCache<Vma>>>) {
        // Faults of several threads follow. If there is no memory for readers that do not share
        // cache lines, they share them.
        // SAFETY: this is the only writer, and switching RCU mode on has no other requirement.
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

    /// Prepares a change of a range and of the VMAs that reach into it, or of what changes within
    /// VMAs.
    ///
    /// # Errors
    /// `ENOMEM` while a journal is kept; nothing has changed.
    #[inline(always)]
    pub(crate) fn before_change(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.is_observed {
            self.prepare_change(start, end)?;
        }
        Ok(())
    }

    /// As [`before_change`](Self::before_change), for the insertion of a VMA, whose lock is closed,
    /// too.
    ///
    /// # Errors
    /// As [`before_change`](Self::before_change).
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

    /// Leaves RCU mode if no other handle is left, closes the locks of the VMAs, and records them
    /// in the journal.
    ///
    /// # Errors
    /// `ENOMEM` while a journal is kept.
    #[cold]
    #[inline(never)]
    fn prepare_change(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.concurrent && self.shared.is_alone() {
            // SAFETY: this is the only handle and stays so during the borrow: no reader exists and
            // none can begin. Everything that readers did happened before.
            unsafe { self.shared.tree.set_in_rcu(false) };
            self.concurrent = false;
            // The cache is no longer told of changes.
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
                // The change will not follow.
                drop(journal.pop());
            }
            copied
        });
        self.journal = Some(journal);
        copied
    }

    /// Closes the locks of the VMAs that intersect `[start, end)`, and waits until no fault holds
    /// one. They stay closed until [`open_locks`](Self::open_locks). Without another handle no
    /// fault can hold one, and this does nothing.
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

    /// Removes a VMA whose lock is being closed from the cache.
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

    /// Closes the lock of a VMA that is about to be inserted.
    #[inline(always)]
    pub(super) fn close_new(&mut self, vma: &mut Vma) {
        if self.concurrent {
            self.locks_closed = true;
            vma.lock.close_new(self.shared.calls.now());
        }
    }

    /// Ends the call: opens all locks.
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

    /// Frees VMAs that have left the tree as soon as no reader can see them.
    #[cold]
    fn flush_retired(&mut self) {
        self.flush_at_end = false;
        // SAFETY: the only writer of the tree is borrowed exclusively.
        unsafe { self.shared.tree.reclaim().flush() };
    }

    /// Starts to keep a journal.
    pub(crate) fn start_journal(&mut self, journal: Box<Journal>) {
        self.journal = Some(journal);
        self.is_observed = true;
    }

    /// Returns the journal, if one is kept.
    pub(crate) fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_deref_mut()
    }

    /// Stops keeping the journal and returns it. Its preallocated nodes become available to writes.
    pub(crate) fn end_journal(&mut self) -> Option<Box<Journal>> {
        self.is_observed = self.concurrent;
        let mut journal = self.journal.take()?;
        // SAFETY: the nodes came from this allocator, in `copy_old_areas`.
        unsafe { journal.nodes.release(self.shared.tree.allocator()) };
        Some(journal)
    }

    /// Copies the VMAs that the change concerns, and preallocates nodes to restore them.
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

    /// Returns the number of nodes that `writes` writes may take in addition, one after the other.
    fn nodes_for(&self, writes: usize) -> usize {
        // At most three for each level, and two of one more level, which may be added in between.
        let a_write = 4 * (self.writer().height() + 2);
        if self.concurrent {
            // What a write replaces comes back only after a grace period.
            return writes * a_write;
        }
        // What a write replaces comes back with the next batch. What stays: a write adds two slots
        // to a leaf, so it splits at most one leaf. Above, a node is split only if it was full,
        // which is less frequent.
        const BATCHES: usize = 3 * 32;
        writes * 2 + 2 * a_write + BATCHES
    }

    /// Returns the numbers that change with the VMAs.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            count: self.count,
            peak: self.peak,
            pages: self.pages,
            guarded_from: self.guarded_from,
        }
    }

    /// Undoes the changes in the journal, last one first. Allocates nothing but preallocated nodes.
    pub(crate) fn roll_back(&mut self, journal: &mut Journal, before: Figures) {
        // VMAs that the call has inserted are retired.
        self.flush_at_end = self.concurrent;
        let writer = self.writer_now();
        while let Some((change, areas)) = journal.pop() {
            // Upwards. What reaches into a range that is restored begins there, so that no VMA is
            // divided.
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
