//! A cursor: the path from the root to a table, kept from page to page.
//!
//! To move to another address, a cursor goes up only to the lowest table common to both addresses.
//! A range thus costs one descent for each last-level table, and most descents read one entry of
//! the table above.

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

/// The entry at which a descent ended above the requested level: empty, or a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) level: usize,
    pub(crate) raw: u64,
}

/// A last-level table as a walk found it, with the location and the value of the entry above.
pub(crate) struct FoundTable<'a> {
    pub(crate) table: Table<'a>,
    slot: &'a AtomicU64,
    pub(crate) parent_entry: u64,
}

impl<'a> FoundTable<'a> {
    /// Locks the table if the entry above is unchanged. It then stays so until the table is
    /// unlocked.
    #[inline]
    pub(crate) fn lock(&self) -> Option<LockedTable<'a>> {
        let locked = self.table.lock();
        (self.slot.load(Ordering::SeqCst) == self.parent_entry).then_some(locked)
    }
}

pub(crate) struct Cursor<'a, F: Format, M: Memory> {
    pub(crate) space: &'a PageTables<F, M>,
    path: [u64; MAX_LEVELS],
    /// The lowest level whose table on the path to `at` is in `path`, by physical address.
    known: usize,
    at: u64,
    /// `true` if the table locked last is shared: it may be read, but not changed.
    pub(crate) shared: bool,
    /// Present, except while [`outside_section`](Self::outside_section) runs.
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

    /// Runs `work` outside the section, and enters it again. Earlier results are invalid
    /// afterwards.
    pub(crate) fn outside_section<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.section = None;
        let result = work();
        self.section = Some(self.memory().grace().enter(self.at));
        self.reset();
        result
    }

    /// Discards the path, because its tables may have left the tree.
    pub(crate) fn reset(&mut self) {
        self.known = Self::TOP;
    }

    /// Returns the table of this level on the path to `addr`, without a lock.
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

    /// Returns the last-level table on the path to `addr`, from the root and without a lock. The
    /// result was in the tree after this call began. The path is not kept.
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

    /// Reads the entry for an address in a table of the path.
    #[inline]
    fn read(&self, addr: u64, level: usize) -> u64 {
        self.memory().read(self.path[level], index(addr, level))
    }

    /// Does the same as [`descend`](Self::descend) from the root: the result was in the tree after
    /// this call began.
    pub(crate) fn descend_from_root(&mut self, addr: u64, level: usize) -> Result<Table<'a>, Stop> {
        self.reset();
        self.descend(addr, level)
    }

    /// Returns the entry that points to the table of this level.
    pub(crate) fn parent_entry(&self, level: usize) -> u64 {
        self.read(self.at, level + 1)
    }

    /// Returns the first address after `addr`, up to `end`, whose entry in the same table is used;
    /// if there is none, the end of what the table maps. A descent has just ended at the empty
    /// entry of this level for `addr`. Linear in the skipped entries, each of which is read once.
    ///
    /// Mappings from before the call are found. The table was in the tree after the call began, so
    /// that its entries were those of its range. If the table has left since then, it was empty
    /// first, and its former entries are gone. (A list link in its first entry counts as used.) A
    /// concurrent mapping by another thread may be missed, as if it came after the call.
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

    /// Locks the table of this level on the path to `addr`. The table stays on the path until it is
    /// unlocked.
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

    /// Creates the missing tables on the path to `addr`, down to this level, and locks the last.
    /// Returns `Exists` if a leaf is in the way.
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
                    // All tables are allocated before the first change.
                    prealloc.ensure(at - level)?;
                    self.create(addr, at, prealloc)?;
                }
            }
        }
    }

    /// Creates a table below the entry of `level`, unless the entry is used.
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

    /// Creates the missing tables on the path to `addr`, and locks the last-level table after
    /// unsharing it. Returns `Exists` without unsharing if a page is mapped at `addr`.
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

    /// Removes tables without used entries from the tree, from the last level up. The tables right
    /// below a kernel's root stay, because other roots point to them. The caller holds no lock.
    pub(crate) fn prune(&mut self, addr: u64, gather: &mut Gather<'_, F, M>) {
        self.prune_from(addr, 0, gather);
    }

    /// Does the same from a table of level `lowest` upwards.
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

/// Returns the end of the part of `start .. end` that the last-level table at `start` maps.
pub(crate) fn table_end(start: u64, end: u64) -> u64 {
    end.min(next(start, 1))
}

/// Returns the entries of a last-level table for `start .. end`, which lies within one table.
pub(crate) fn indices(start: u64, end: u64) -> core::ops::Range<usize> {
    let first = index(start, 0);
    first..first + ((end - start) >> 12) as usize
}

/// Returns `true` if a TLB may hold this leaf.
pub(crate) const fn may_be_in_tlb(raw: u64) -> bool {
    raw & tag::VALID != 0
}
