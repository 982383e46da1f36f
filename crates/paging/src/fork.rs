//! Fork by copy: the child gets copies of the parent's last-level tables, and both count the same
//! frames.

use core::ops::Range;

use crate::copy::{Private, Shared, copy_entries};
use crate::cursor::{Cursor, Stop, indices, may_be_in_tlb, table_end};
use crate::entry::{Attrs, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::format::{Format, MAX_LEVELS};
use crate::frames::Frames;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::space::PageTables;
use crate::table::{LockedTable, Table};

/// The kind of a mapping, which decides who sees writes after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Only the writer sees a write. Both sides lose write access and copy at the first write.
    Private,
    /// Both sides see writes.
    Shared,
}

/// The pages that a fork copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkFilter {
    /// All pages.
    All,
    /// All except clean pages of files, which a fault maps again.
    SkipCleanFile,
    /// All except clean pages of files and the zero page, which a fault maps again.
    SkipRestorable,
}

impl ForkFilter {
    /// Returns `true` if a leaf is not copied.
    #[inline]
    pub(crate) fn skips<F: Format>(self, frames: &Frames, zero: u64, raw: u64) -> bool {
        let phys = F::phys(raw);
        if F::is_special(raw) {
            // Device memory, memory mapped by PFN, or the zero page.
            self == Self::SkipRestorable && phys == zero
        } else {
            self != Self::All && F::without_dirty(raw) == raw && !frames.is_anon(phys)
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Copies the mappings and markers of a range (in bytes, the end exclusive) to the same
    /// addresses of `child`, where nothing is mapped yet. Frame counts are raised. In private
    /// mappings both sides lose write access. The parent's TLBs are invalidated once; no processor
    /// runs the child yet.
    ///
    /// Other calls and faults may run concurrently on the parent. The child belongs to the caller
    /// until it is published.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], [`Error::Exists`], [`Error::Misaligned`]: nothing has changed.
    /// [`Error::TooMany`]: the count of a frame is at its limit. The child is unchanged then. The
    /// parent may have lost write access, which its next faults restore.
    ///
    /// Linear in the mapped pages of the range. A page that is exclusive to the parent costs no
    /// locked instruction.
    pub fn copy_range(
        &self,
        child: &Self,
        range: Range<u64>,
        mapping: Mapping,
        copy: ForkFilter,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_fork(child, &range)?;
        let mut fork = Fork::new(self, child, &range, mapping, copy, tlb);
        fork.preallocate(&range, false)?;
        let mut at = range.start;
        while at < range.end {
            match fork.step(at, range.end) {
                Ok(next) => at = next,
                Err(error) => {
                    fork.undo(child, range.start..at)?;
                    return Err(error);
                }
            }
        }
        child.notify_mapped(tlb, range.start, range.end, Attrs::READ);
        Ok(())
    }
}

/// The state of a fork.
pub(crate) struct Fork<'a, F: Format, M: Memory> {
    pub(crate) from: Cursor<'a, F, M>,
    pub(crate) to: Cursor<'a, F, M>,
    mapping: Mapping,
    copy: ForkFilter,
    pub(crate) prealloc: PreallocTables<'a, M>,
    pub(crate) gather: Gather<'a, F, M>,
}

impl<'a, F: Format, M: Memory> Fork<'a, F, M> {
    pub(crate) fn new(
        parent: &'a PageTables<F, M>,
        child: &'a PageTables<F, M>,
        range: &Range<u64>,
        mapping: Mapping,
        copy: ForkFilter,
        tlb: &'a dyn Invalidate,
    ) -> Self {
        Self {
            from: parent.cursor(range.start),
            to: child.cursor(range.start),
            mapping,
            copy,
            prealloc: PreallocTables::none(parent.physical()),
            gather: parent.gather(tlb),
        }
    }

    /// Preallocates the tables that the child needs. With `sharing`, the 2 MiB regions that lie
    /// wholly in the range need no last-level table.
    pub(crate) fn preallocate(&mut self, range: &Range<u64>, sharing: bool) -> Result<(), Error> {
        if !sharing {
            let tables = self.tables(range.clone(), false)?;
            return self.prealloc.ensure(tables);
        }
        let (mut at, mut tables) = (range.start, 0);
        let mut counted = [u64::MAX; MAX_LEVELS];
        while at < range.end {
            let end = next(at, 2).min(range.end);
            let parent = self.from.descend(at, 1);
            if parent.is_ok() && self.to.descend(at, 1).is_err_and(|stop| stop.raw == 0) {
                // The child's upper table is missing here. The parent's tables can all be linked
                // into a new one and need not be counted one by one.
                let first = if at & (span(1) - 1) == 0 {
                    at
                } else {
                    next(at, 1).min(end)
                };
                let last = first.max(end & !(span(1) - 1));
                tables += self.to.count_missing_at(at..end, 1, &mut counted)?;
                tables += self.tables(at..first, false)? + self.tables(last..end, false)?;
            } else {
                tables += self.tables(at..end, true)?;
            }
            at = end;
        }
        self.prealloc.ensure(tables)
    }

    fn tables(&mut self, range: Range<u64>, sharing: bool) -> Result<usize, Error> {
        let (from, to) = (&mut self.from, &mut self.to);
        from.count_for_dest(to, &range, range.start, sharing)
    }

    /// Removes the mappings that the child got in `done`. They are whole leaves, so that nothing is
    /// split.
    #[cold]
    pub(crate) fn undo(self, child: &PageTables<F, M>, done: Range<u64>) -> Result<(), Error> {
        drop(self);
        child.unmap(done, &())
    }

    /// Copies from one last-level table, or one entry above it, starting at `at`. Returns the
    /// address to continue at.
    pub(crate) fn step(&mut self, at: u64, end: u64) -> Result<u64, Error> {
        match self.from.descend(at, 0) {
            Ok(_) => {
                let end = table_end(at, end);
                self.copy_table(at, end)?;
                Ok(end)
            }
            Err(Stop { level, raw: 0 }) => Ok(next(at, level).min(end)),
            Err(Stop { level, raw }) => {
                let start = at & !(span(level) - 1);
                let part = start < at || next(at, level) > end;
                if part || self.is_pinned(level, raw) {
                    self.from
                        .split(at, level, &mut self.prealloc, &mut self.gather)?;
                    return Ok(at);
                }
                self.copy_huge(at, level)?;
                Ok(next(at, level))
            }
        }
    }

    /// Returns `true` if frames of a huge page are pinned. It is split then, and its parts are
    /// copied one by one.
    fn is_pinned(&self, level: usize, raw: u64) -> bool {
        let frames = self.from.memory().frames();
        self.mapping == Mapping::Private
            && tag::is_page(raw)
            && !F::is_table(raw)
            && !F::is_special(raw)
            && frames.any_pinned(F::phys(raw), PageSize::of(level).order())
    }

    /// Copies the entries of one last-level table. The two tables are locked one after the other,
    /// the parent's first. Only this call can reach the child's.
    fn copy_table(&mut self, at: u64, end: u64) -> Result<(), Error> {
        // A new table of the child is filled before it is linked into the tree.
        let fresh = self.to.descend(at, 0).is_err();
        let Ok(parent) = self.from.lock(at, 0) else {
            return Ok(());
        };
        if parent.used() == 0 {
            return Ok(());
        }
        if !fresh {
            let mut child = self
                .to
                .lock_unshared(at, &mut self.prealloc, &mut self.gather)?;
            let used = self.fill::<false>(&parent, &child.table, at, end)?;
            child.add_used(used);
            return Ok(());
        }
        let phys = self.prealloc.take()?;
        let table = self.from.memory().table(phys);
        let filled = self.fill::<true>(&parent, &table, at, end);
        drop(parent);
        match filled {
            Ok(used) if used > 0 => {
                table.lock().add_used(used);
                self.link(at, phys)
            }
            unused => {
                self.prealloc.give(phys);
                unused.map(|_| ())
            }
        }
    }

    /// Fills a part of a child's table, and returns the number of used entries.
    fn fill<const FRESH: bool>(
        &mut self,
        parent: &LockedTable<'_>,
        child: &Table<'_>,
        at: u64,
        end: u64,
    ) -> Result<u32, Error> {
        let memory = self.from.memory();
        let fill = match self.mapping {
            Mapping::Private => copy_entries::<F, Private, _, _, FRESH>,
            Mapping::Shared => copy_entries::<F, Shared, _, _, FRESH>,
        };
        let (copied, result) = fill(memory, self.copy, parent, child, indices(at, end));
        // TLB entries through a shared table have no write access already.
        if !copied.protected.is_empty() && !self.from.shared {
            let addr = |i: usize| (at & !(span(1) - 1)) + i as u64 * PAGE_SIZE;
            let (start, end) = (addr(copied.protected.start), addr(copied.protected.end));
            self.gather.range(start, end, Changed::PAGES);
        }
        result.map(|()| copied.used)
    }

    /// Links a filled last-level table, which no other thread can reach yet, into the child's tree.
    fn link(&mut self, addr: u64, table: u64) -> Result<(), Error> {
        let mut upper = self.to.lock_or_create(addr, 1, &mut self.prealloc)?;
        upper.store(index(addr, 1), F::table_entry(table, false));
        upper.add_used(1);
        self.to.space.bump_generation();
        Ok(())
    }

    /// Copies a huge page.
    fn copy_huge(&mut self, at: u64, level: usize) -> Result<(), Error> {
        let slot = index(at, level);
        let mut child = self.to.lock_or_create(at, level, &mut self.prealloc)?;
        if child.load(slot) != 0 {
            return Err(Error::Exists);
        }
        let copied = self.count_huge(at, level);
        if let Ok(Some(raw)) = copied {
            child.store(slot, raw);
            child.add_used(1);
            self.to.space.bump_generation();
        }
        let empty = child.used() == 0;
        drop(child);
        if empty {
            // No processor runs the child yet: only the table is gathered.
            self.to.prune_from(at, level, &mut self.gather);
        }
        copied.map(|_| ())
    }

    /// Adds a mapping to a huge page, and removes write access where necessary. Returns the child's
    /// entry, if it gets one.
    fn count_huge(&mut self, at: u64, level: usize) -> Result<Option<u64>, Error> {
        let slot = index(at, level);
        let memory = self.from.memory();
        let Ok(parent) = self.from.lock(at, level) else {
            return Ok(None);
        };
        let raw = parent.load(slot);
        let zero = memory.zero_page();
        if !tag::is_page(raw)
            || F::is_table(raw)
            || self.copy.skips::<F>(memory.frames(), zero, raw)
        {
            return Ok(None);
        }
        if !F::is_special(raw) {
            let order = PageSize::of(level).order();
            memory.frames().map_leaf(F::phys(raw), order)?;
        }
        if self.mapping == Mapping::Shared {
            return Ok(Some(F::without_accessed(F::without_dirty(raw))));
        }
        let mut was = raw;
        if F::is_writable(raw) {
            was = parent.update::<F>(slot, raw, F::write_protected);
            if may_be_in_tlb(was) {
                self.gather.range(at, next(at, level), Changed::PAGES);
            }
        }
        Ok(Some(F::without_accessed(F::write_protected(was))))
    }
}
