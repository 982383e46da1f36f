//! A fork without the copy: last-level tables that several address spaces use.
//!
//! # Protocol
//!
//! A last-level table counts its users: the entries above that point to it. While it has more than one, each of these entries is marked, and
//! forbids stores to all that is below (on RISC-V, where it cannot, the table's pages have lost permission to write instead).
//! Nobody changes a table by way of a marked entry. Who wants to change something in its 2 MiB makes the entry its own first
//! ([`unshare`](Cursor::unshare)):
//!
//! - The table has one user left: the mark goes. Others may take the same step for their tables at the same time, not for this one, since the
//!   upper table is locked.
//! - It has more: a copy takes its place. Each frame is counted once more; private memory is write-protected in both tables, as by a fork. The
//!   processors are told; only then is the place in the old table given up. Until then one of them may still go through the old table, which the last user
//!   that is left would be free to change.
//!
//! Who gives up the last place gives up the table's mappings, too; so address spaces may end in any order. A child of a child has its places in the
//! same tables, and nothing is nested.

use crate::atomic::Ordering;
use crate::copy::{Unshare, copy_entries};
use crate::cursor::{Cursor, Stop};
use crate::deferred_free::DeferredFree;
use crate::entry::{Attrs, ENTRIES, Entry, PAGE_SIZE, PageSize, index, next, span, tag};
use crate::error::Error;
use crate::fork::{Fork, ForkFilter, Mapping};
use crate::format::Format;
use crate::frames::Counts;
use crate::invalidate::{Changed, Gather, Invalidate};
use crate::phys::{Memory, Physical};
use crate::prealloc::PreallocTables;
use crate::space::PageTables;
use crate::table::{LockedTable, SPARSE};
use core::ops::Range;

/// The mappings of a leaf, which has left its table, go; dead frames are noted.
pub(crate) fn release_leaf<F: Format, M: Memory>(
    memory: &Physical<M::Backing, M::Reclaim>,
    raw: u64,
    level: usize,
    dead: &mut DeferredFree,
) {
    if tag::is_page(raw) && !F::is_special(raw) {
        let order = PageSize::of(level).order();
        memory.frames().unmap_leaf(F::phys(raw), order, dead);
    }
}

/// The same for one of many small pages.
#[inline(always)]
pub(crate) fn release_page<F: Format, M: Memory>(
    memory: &Physical<M::Backing, M::Reclaim>,
    counts: Counts<'_>,
    raw: u64,
    dead: &mut DeferredFree,
) {
    if F::is_counted(raw)
        && let Some(index) = counts.last_mapping(F::phys(raw))
    {
        dead.push(memory.frames(), index, 1);
    } else {
        release_leaf::<F, M>(memory, raw, 0, dead);
    }
}

/// One user of a last-level table less; with the last, its mappings go, and the table is the caller's to retire.
pub(crate) fn drop_table_user<F: Format, M: Memory>(
    memory: &Physical<M::Backing, M::Reclaim>,
    phys: u64,
    dead: &mut DeferredFree,
) -> bool {
    let table = memory.table(phys);
    let mut locked = table.lock();
    locked.sub_user();
    match locked.users() {
        0 => {}
        1 => {
            memory.count_shared(-1);
            return false;
        }
        _ => return false,
    }
    let counts = memory.frames().counts();
    let used = locked.used();
    if used < SPARSE {
        table.for_each_used(0..ENTRIES, |index, raw| {
            locked.store(index, 0);
            release_page::<F, M>(memory, counts, raw, dead);
        });
    } else {
        for slot in table.entries(0..ENTRIES) {
            let raw = slot.load(Ordering::Relaxed);
            if raw != 0 {
                slot.store(0, Ordering::Release);
                release_page::<F, M>(memory, counts, raw, dead);
            }
        }
    }
    locked.sub_used(used);
    true
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Makes the last-level table at `addr` this address space's own. No lock is held.
    #[cold]
    pub(crate) fn unshare(
        &mut self,
        addr: u64,
        prealloc: &mut PreallocTables<'_, M>,
        gather: &mut Gather<'_, F, M>,
    ) -> Result<(), Error> {
        let memory = self.memory();
        let copy = prealloc.take()?;
        let Ok(upper) = self.lock(addr, 1) else {
            prealloc.give(copy);
            return Ok(());
        };
        let slot = index(addr, 1);
        let raw = upper.load(slot);
        if !F::is_table(raw) || !F::is_shared(raw) {
            prealloc.give(copy);
            return Ok(());
        }
        let old = memory.table(F::phys(raw)).lock();
        if old.users() == 1 {
            upper.store(slot, F::table_entry(old.table.phys, false));
            self.space.bump_unlink_seq();
            prealloc.give(copy);
            return Ok(());
        }
        let new = memory.table(copy);
        let (_, result) =
            copy_entries::<F, Unshare, _, _, true>(memory, ForkFilter::All, &old, &new, 0..ENTRIES);
        if let Err(error) = result {
            drop((old, upper));
            prealloc.give(copy);
            return Err(error);
        }
        new.lock().add_used(old.used());
        upper.unlink(slot, F::table_entry(copy, false));
        // Before the old table's lock is released, and with it the chance for others to change it: see `PageTables`.
        self.space.bump_unlink_seq();
        let phys = old.table.phys;
        drop((old, upper));
        self.reset();
        self.defer_drop(addr, phys, gather);
        Ok(())
    }

    /// Gives up the place in the shared table at `addr` with all that is in its 2 MiB, if it is still shared. If `seen` is to be `TOLD`, it is, of each
    /// entry.
    pub(crate) fn drop_shared<const TOLD: bool>(
        &mut self,
        addr: u64,
        gather: &mut Gather<'_, F, M>,
        seen: &mut impl FnMut(u64, Entry),
    ) {
        let Ok(mut upper) = self.lock(addr, 1) else {
            return;
        };
        let slot = index(addr, 1);
        let raw = upper.load(slot);
        if !F::is_table(raw) || !F::is_shared(raw) {
            return;
        }
        let old = self.memory().table(F::phys(raw)).lock();
        if old.users() == 1 {
            upper.store(slot, F::table_entry(old.table.phys, false));
            self.space.bump_unlink_seq();
            return;
        }
        if TOLD {
            let base = addr & !(span(1) - 1);
            for i in 0..ENTRIES {
                let raw = old.load(i);
                if raw != 0 {
                    seen(base + i as u64 * PAGE_SIZE, F::decode(raw, 0));
                }
            }
        }
        upper.unlink(slot, 0);
        upper.sub_used(1);
        self.space.bump_unlink_seq();
        let phys = old.table.phys;
        drop(old);
        let empty = upper.used() == 0;
        drop(upper);
        self.reset();
        self.defer_drop(addr, phys, gather);
        if empty {
            self.prune_from(addr, 1, gather);
        }
    }

    /// The processors are to forget a shared table, and then its place is given up.
    fn defer_drop(&mut self, addr: u64, table: u64, gather: &mut Gather<'_, F, M>) {
        let start = addr & !(span(1) - 1);
        gather.range(start, next(addr, 1), Changed::PAGES | Changed::TABLES);
        if gather.defer_shared(table) {
            gather.finish();
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Lets `child` use the last-level tables of a range (in bytes, the end exclusive) instead of copying them. The parts at the ends that do not fill a
    /// stretch of 2 MiB, and huge pages, are copied as [`copy_range`](Self::copy_range) does, as private memory. Whoever first changes something in a
    /// stretch, by any call, gets its own copy of that one table.
    ///
    /// What a walk finds is as after a copy: a page of private memory is not writable, whichever side asks, and not exclusive. Shared mappings
    /// stay shared. The parent's processors are told once.
    ///
    /// # Errors
    ///
    /// As [`copy_range`](Self::copy_range); [`Error::TooMany`] also for a table with 524,287 users.
    pub fn share_range(
        &self,
        child: &Self,
        range: Range<u64>,
        tlb: &dyn Invalidate,
    ) -> Result<(), Error> {
        self.check_fork(child, &range)?;
        let mut fork = Fork::new(self, child, &range, Mapping::Private, ForkFilter::All, tlb);
        fork.preallocate(&range, true)?;
        let mut at = range.start;
        while at < range.end {
            let (reached, result) = match fork.from.descend(at, 1) {
                Ok(_) => fork.share_tables(at, range.end.min(next(at, 2))),
                Err(Stop { level, raw: 0 }) => (next(at, level).min(range.end), Ok(())),
                Err(_) => (at, Ok(())),
            };
            let result = match result {
                // Nothing that could be shared: a huge page, or a part of a stretch.
                Ok(()) if reached == at => fork.step(at, range.end),
                other => other.map(|()| reached),
            };
            match result {
                Ok(next) => at = next,
                Err(error) => {
                    fork.undo(child, range.start..reached)?;
                    return Err(error);
                }
            }
        }
        child.notify_mapped(tlb, range.start, range.end, Attrs::READ);
        Ok(())
    }
}

impl<F: Format, M: Memory> Fork<'_, F, M> {
    /// Shares the tables below one table of level 1, as far as stretches are whole; the address of the first that is not, or at which it failed.
    fn share_tables(&mut self, start: u64, end: u64) -> (u64, Result<(), Error>) {
        let mut at = start;
        if at & (span(1) - 1) != 0 || end - at < span(1) {
            return (at, Ok(()));
        }
        let memory = self.from.memory();
        let Ok(parent) = self.from.lock(at, 1) else {
            return (next(at, 1), Ok(()));
        };
        // Made when there is something to share.
        let mut child: Option<LockedTable<'_>> = None;
        // How many tables have two users now, and what processors may remember as writable.
        let (mut shared, mut guarded) = (0, end..start);
        let mut result = Ok(());
        // Up to where it has been looked which tables are used.
        let mut seen = index(at, 1);
        while end - at >= span(1) {
            let slot = index(at, 1);
            if slot >= seen {
                // The words of tables lie far apart, so that each comes from memory. Locked instructions wait for one such word after the other;
                // plain loads, some ahead, for several at once.
                seen = (slot + AHEAD).min(ENTRIES);
                let ahead = parent.table.entries(slot..seen).iter();
                let tables = ahead
                    .map(|raw| raw.load(Ordering::Relaxed))
                    .filter(|&raw| F::is_table(raw));
                tables.for_each(|raw| _ = memory.table(F::phys(raw)).seems_used());
            }
            let raw = parent.load(slot);
            if raw == 0 {
                at += span(1);
                continue;
            }
            if !F::is_table(raw) {
                break;
            }
            let phys = F::phys(raw);
            let mut table = memory.table(phys).lock();
            if table.used() == 0 {
                // Another thread is about to take it out.
                at += span(1);
                continue;
            }
            let child = match &mut child {
                Some(child) => child,
                None => match self.to.lock_or_create(at, 1, &mut self.prealloc) {
                    Ok(locked) => child.insert(locked),
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                },
            };
            if child.load(slot) != 0 {
                result = Err(Error::Exists);
                break;
            }
            if !table.add_user() {
                result = Err(Error::TooMany);
                break;
            }
            shared += isize::from(table.users() == 2);
            let entry = F::table_entry(phys, true);
            if !F::is_shared(raw) {
                if !F::TABLES_FORBID_WRITES {
                    protect_all::<F>(&table);
                }
                parent.store(slot, entry);
                guarded = guarded.start.min(at)..at + span(1);
            }
            child.store(slot, entry);
            child.add_used(1);
            at += span(1);
        }
        memory.count_shared(shared);
        self.to.space.bump_generation();
        drop(parent);
        if !guarded.is_empty() {
            self.from.space.bump_unlink_seq();
            let changed = Changed::PAGES | Changed::TABLES;
            self.gather.range(guarded.start, guarded.end, changed);
        }
        if let Some(child) = child
            && child.used() == 0
        {
            drop(child);
            self.to.prune_from(at, 1, &mut self.gather);
        }
        (at, result)
    }
}

/// Tables that a fork looks at before it locks the first of them.
const AHEAD: usize = 16;

/// Where the entry above cannot forbid stores, the pages themselves do: also those that all may write to. So nothing is ever stored through a table that
/// is shared, and no page in it becomes dirty after its users have looked.
fn protect_all<F: Format>(table: &LockedTable<'_>) {
    for i in 0..ENTRIES {
        let raw = table.load(i);
        if tag::is_page(raw) && F::is_writable(raw) {
            table.update::<F>(i, raw, F::write_protected);
        }
    }
}
