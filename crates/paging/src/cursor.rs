//! The way down, kept from page to page.
//!
//! A cursor remembers the tables on its way. To go to another address it goes up only as far as both have their tables in common, so that a
//! range costs one descent for each last-level table, and most of that is one entry of the table above.

use crate::atomic::{AtomicU64, Ordering};
use crate::entry::{index, next, span, tag};
use crate::error::Error;
use crate::format::{Format, MAX_LEVELS};
use crate::invalidate::{Changed, Gather};
use crate::phys::{Memory, Physical};
use crate::prealloc::PreallocTables;
use crate::reclaim::Reclaim;
use crate::space::PageTables;
use crate::table::{LockedTable, Table};

/// Where the way down ended before the level that was asked for: nothing, or a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) level: usize,
    pub(crate) raw: u64,
}

/// A last-level table as a walk has found it: by which entry, and what that said.
pub(crate) struct FoundTable<'a> {
    pub(crate) table: Table<'a>,
    slot: &'a AtomicU64,
    pub(crate) parent_entry: u64,
}

impl<'a> FoundTable<'a> {
    /// Locks the table, if it is still on the way; it stays so until it is unlocked.
    #[inline]
    pub(crate) fn lock(&self) -> Option<LockedTable<'a>> {
        let locked = self.table.lock();
        (self.slot.load(Ordering::SeqCst) == self.parent_entry).then_some(locked)
    }
}

pub(crate) struct Cursor<'a, F: Format, M: Memory> {
    pub(crate) space: &'a PageTables<F, M>,
    path: [u64; MAX_LEVELS],
    /// The lowest level whose table on the way to `at` is in `path`, by its physical address.
    known: usize,
    at: u64,
    /// Whether the table that was locked last is shared: it may be read, not changed.
    pub(crate) shared: bool,
    /// There, except while [`outside_section`](Self::outside_section) runs.
    section: Option<<M::Reclaim as Reclaim>::Section<'a>>,
}

impl<'a, F: Format, M: Memory> Cursor<'a, F, M> {
    const TOP: usize = PageTables::<F, M>::TOP;

    #[inline]
    pub(crate) fn new(
        space: &'a PageTables<F, M>,
        section: <M::Reclaim as Reclaim>::Section<'a>,
    ) -> Self {
        Self {
            space,
            path: [space.root; MAX_LEVELS],
            known: Self::TOP,
            at: 0,
            shared: false,
            section: Some(section),
        }
    }

    pub(crate) fn memory(&self) -> &'a Physical<M::Backing, M::Reclaim> {
        self.space.physical()
    }

    /// Runs `work` outside of the section, and enters it anew: what is found before says nothing after.
    pub(crate) fn outside_section<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.section = None;
        let result = work();
        self.section = Some(self.memory().grace().enter(self.at));
        self.reset();
        result
    }

    /// Forgets the way: tables on it may have left the tree.
    pub(crate) fn reset(&mut self) {
        self.known = Self::TOP;
    }

    /// The table of this level on the way to `addr`, without any lock.
    #[inline]
    pub(crate) fn descend(&mut self, addr: u64, level: usize) -> Result<Table<'a>, Stop> {
        let differ = addr ^ self.at;
        while self.known < Self::TOP && differ >= span(self.known + 1) {
            self.known += 1;
        }
        self.at = addr;
        let memory = self.memory();
        let mut known = self.known;
        let mut table = self.path[known.max(level)];
        while known > level {
            let raw = memory.read(table, index(addr, known));
            if !F::is_table(raw) {
                self.known = known;
                return Err(Stop { level: known, raw });
            }
            known -= 1;
            table = F::phys(raw);
            self.path[known] = table;
        }
        self.known = known;
        Ok(memory.table(table))
    }

    /// The last-level table on the way to `addr`, from the root and without any lock: what is found was there after this call began. It is not remembered for
    /// other addresses.
    #[inline(always)]
    pub(crate) fn find_table(&self, addr: u64) -> Result<FoundTable<'a>, Stop> {
        let memory = self.memory();
        let mut table = self.space.root;
        let mut level = Self::TOP;
        loop {
            let slot = memory.slot(table, index(addr, level));
            let parent_entry = slot.load(Ordering::SeqCst);
            if !F::is_table(parent_entry) {
                return Err(Stop {
                    level,
                    raw: parent_entry,
                });
            }
            table = F::phys(parent_entry);
            level -= 1;
            if level == 0 {
                let table = memory.table(table);
                return Ok(FoundTable {
                    table,
                    slot,
                    parent_entry,
                });
            }
        }
    }

    /// The entry for an address of a table on the way.
    #[inline]
    fn read(&self, addr: u64, level: usize) -> u64 {
        self.memory().read(self.path[level], index(addr, level))
    }

    /// The same, anew from the root: what is found was there after this call began.
    pub(crate) fn descend_from_root(&mut self, addr: u64, level: usize) -> Result<Table<'a>, Stop> {
        self.reset();
        self.descend(addr, level)
    }

    /// The entry of the table one above this level.
    pub(crate) fn parent_entry(&self, level: usize) -> u64 {
        self.read(self.at, level + 1)
    }

    /// Nothing is below the entry of this level at `addr`, where the way down has just ended: the first address after it, up to `end`, at which an entry of
    /// the same table has something, or else the end of what the table stands for. Linear in the entries passed over, each of which is read once.
    ///
    /// What was mapped before the call began is found. The table was in the tree after that, so that each place of its range had what it had by way
    /// of this table. If the table has left since then, it was empty first, and what had been there is gone. (A link in its first entry, put there since,
    /// is something.) What another thread maps in the meantime may be missed, as if it came after.
    #[inline]
    pub(crate) fn skip_hole(&self, addr: u64, level: usize, end: u64) -> u64 {
        let first = next(addr, level);
        let last = end.min(next(addr, level + 1));
        if first >= last {
            return last;
        }
        let shift = span(level).trailing_zeros();
        let from = index(first, level);
        let part = from..from + (((last - 1) >> shift) - (first >> shift) + 1) as usize;
        let table = self.memory().table(self.path[level]);
        // Sequentially consistent, as in `Table::read`.
        let found = |slot: &AtomicU64| slot.load(Ordering::SeqCst) != 0;
        match table.entries(part).iter().position(found) {
            Some(passed) => first + ((passed as u64) << shift),
            None => last,
        }
    }

    /// Locks the table of this level on the way to `addr`; it is still on the way, and stays so until it is unlocked.
    #[inline]
    pub(crate) fn lock(&mut self, addr: u64, level: usize) -> Result<LockedTable<'a>, Stop> {
        loop {
            let table = match self.descend(addr, level) {
                Ok(table) => table,
                Err(_) => self.descend_from_root(addr, level)?,
            };
            let locked = table.lock();
            if level == Self::TOP {
                self.shared = false;
                return Ok(locked);
            }
            let parent_entry = self.parent_entry(level);
            if F::is_table(parent_entry) && F::phys(parent_entry) == table.phys {
                self.shared = level == 0 && F::is_shared(parent_entry);
                return Ok(locked);
            }
            drop(locked);
            self.reset();
        }
    }

    /// Makes the tables on the way to `addr`, down to this level, and locks the last. A leaf in the way is `Exists`.
    #[inline]
    pub(crate) fn lock_or_create(
        &mut self,
        addr: u64,
        level: usize,
        prealloc: &mut PreallocTables<'_, M>,
    ) -> Result<LockedTable<'a>, Error> {
        loop {
            match self.lock(addr, level) {
                Ok(locked) => return Ok(locked),
                Err(Stop { raw, .. }) if raw != 0 => return Err(Error::Exists),
                Err(Stop { level: at, .. }) => {
                    // All that it takes, or nothing is begun.
                    prealloc.ensure(at - level)?;
                    self.create(addr, at, prealloc)?;
                }
            }
        }
    }

    /// Makes a table below the entry of `level`, unless something is there.
    #[cold]
    fn create(
        &mut self,
        addr: u64,
        level: usize,
        prealloc: &mut PreallocTables<'_, M>,
    ) -> Result<(), Error> {
        if level == Self::TOP && self.space.is_kernel() {
            return Err(Error::OutOfRange);
        }
        let table = prealloc.take_empty()?;
        if let Ok(mut upper) = self.lock(addr, level)
            && upper.load(index(addr, level)) == 0
        {
            upper.store(index(addr, level), F::table_entry(table, false));
            upper.add_used(1);
            if level == 1 {
                self.space.bump_generation();
            }
        } else {
            prealloc.give(table);
        }
        Ok(())
    }

    /// Makes the tables on the way to `addr`, and locks that of the last level, which is this address space's own. `Exists` if a page is at `addr` and
    /// the table is still shared: nobody can map there, so nothing is copied.
    #[inline]
    pub(crate) fn lock_unshared(
        &mut self,
        addr: u64,
        prealloc: &mut PreallocTables<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<LockedTable<'a>, Error> {
        loop {
            let locked = self.lock_or_create(addr, 0, prealloc)?;
            if !self.shared {
                return Ok(locked);
            }
            if tag::is_page(locked.load(index(addr, 0))) {
                return Err(Error::Exists);
            }
            drop(locked);
            self.unshare(addr, prealloc, gather)?;
        }
    }

    /// Takes tables out of the tree that hold nothing any more, from the last level up, but for those right below a kernel's root, to which other roots
    /// point. No lock is held.
    pub(crate) fn prune(&mut self, addr: u64, gather: &mut Gather<'_, F, M>) {
        self.prune_from(addr, 0, gather);
    }

    /// The same from a table of this level upwards.
    pub(crate) fn prune_from(&mut self, addr: u64, lowest: usize, gather: &mut Gather<'_, F, M>) {
        for level in lowest..Self::TOP {
            if level + 1 == Self::TOP && self.space.is_kernel() {
                return;
            }
            let Ok(mut upper) = self.lock(addr, level + 1) else {
                return;
            };
            let slot = index(addr, level + 1);
            let raw = upper.load(slot);
            if !F::is_table(raw) || level == 0 && F::is_shared(raw) {
                return;
            }
            let table = self.memory().table(F::phys(raw));
            let below = table.lock();
            if below.used() > 0 {
                return;
            }
            upper.unlink(slot, 0);
            upper.sub_used(1);
            if level == 0 {
                self.space.bump_generation();
            }
            drop(below);
            let more = upper.used() == 0;
            drop(upper);
            self.reset();
            let start = addr & !(span(level + 1) - 1);
            gather.range(start, next(addr, level + 1), Changed::TABLES);
            gather.retire_table(table.phys);
            if !more {
                return;
            }
        }
    }
}

/// The end of the part of `start .. end` that the table of the last level at `start` covers.
pub(crate) fn table_end(start: u64, end: u64) -> u64 {
    end.min(next(start, 1))
}

/// The entries of a last-level table for `start .. end`, which lie in one stretch.
pub(crate) fn indices(start: u64, end: u64) -> core::ops::Range<usize> {
    let first = index(start, 0);
    first..first + ((end - start) >> 12) as usize
}

/// Whether processors may remember this leaf.
pub(crate) const fn may_be_in_tlb(raw: u64) -> bool {
    raw & tag::VALID != 0
}
