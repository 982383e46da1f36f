//! Fork by sharing: last-level tables that several address spaces use.
//!
//! # Protocol
//!
//! A last-level table counts its users: the entries above that point to it. While it has more than
//! one, each of these entries is marked and forbids stores to everything below. (On RISC-V an entry
//! cannot do that; the table's pages are write-protected instead.) No thread changes a table
//! through a marked entry. An address space that wants to change something in these 2 MiB first
//! [unshares](Cursor::unshare) the table:
//!
//! - The table has one user left: the mark is cleared. Other users can do the same with their own
//!   tables, but not with this one, because its upper table is locked.
//! - The table has more users: a copy replaces it. Each frame gets another mapping, and private
//!   memory is write-protected in both tables, as by a fork. The TLBs are invalidated before the
//!   user count of the old table drops. Until then a processor may still walk the old table, which
//!   its last user would be free to change.
//!
//! The last user gives up the table's mappings as well, so that address spaces may end in any
//! order. The child of a child uses the same tables, without nesting.

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

/// Gives up the mappings of a leaf that was removed from its table. Frames that become unreferenced
/// are added to `dead`.
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

/// Does the same for a small page, with a fast path.
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

/// Removes a user of a last-level table. Returns `true` for the last one: the table's mappings are
/// given up, and the caller must retire it.
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
    /// Unshares the last-level table at `addr`. The caller holds no lock.
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
        // Before the old table is unlocked and others can change it: see `PageTables`.
        self.space.bump_unlink_seq();
        let phys = old.table.phys;
        drop((old, upper));
        self.reset();
        self.defer_drop(addr, phys, gather);
        Ok(())
    }

    /// Gives up the shared table at `addr` with everything in its 2 MiB, if it is still shared.
    /// With `TOLD`, calls `seen` for each entry.
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

    /// Gathers the invalidation of a shared table, after which its user count drops.
    fn defer_drop(&mut self, addr: u64, table: u64, gather: &mut Gather<'_, F, M>) {
        let start = addr & !(span(1) - 1);
        gather.range(start, next(addr, 1), Changed::PAGES | Changed::TABLES);
        if gather.defer_shared(table) {
            gather.finish();
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Shares the last-level tables of a range (in bytes, the end exclusive) with `child` instead
    /// of copying them. Parts of a table at both ends, and huge pages, are copied as private
    /// memory, as [`copy_range`](Self::copy_range) does. The first change to a 2 MiB region by
    /// either side, through any call, copies that one table.
    ///
    /// A walk finds the same as after a copy: a page of private memory is neither writable nor
    /// exclusive, on both sides. Shared mappings stay shared. The parent's TLBs are invalidated
    /// once.
    ///
    /// # Errors
    ///
    /// As for [`copy_range`](Self::copy_range); [`Error::TooMany`] also for a table with 524,287
    /// users.
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
                // Not shareable: a huge page, or a part of a table.
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
    /// Shares the tables below one table of level 1, as far as they lie wholly in the range.
    /// Returns the first address that it did not handle, and the error if it failed there.
    fn share_tables(&mut self, start: u64, end: u64) -> (u64, Result<(), Error>) {
        let mut at = start;
        if at & (span(1) - 1) != 0 || end - at < span(1) {
            return (at, Ok(()));
        }
        let memory = self.from.memory();
        let Ok(parent) = self.from.lock(at, 1) else {
            return (next(at, 1), Ok(()));
        };
        // Created when there is something to share.
        let mut child: Option<LockedTable<'_>> = None;
        // The number of tables that now have two users, and the range that TLBs may hold as
        // writable.
        let (mut shared, mut guarded) = (0, end..start);
        let mut result = Ok(());
        // The entries whose tables were prefetched end here.
        let mut seen = index(at, 1);
        while end - at >= span(1) {
            let slot = index(at, 1);
            if slot >= seen {
                // The words of tables lie far apart, so that each access misses the cache. Locked
                // instructions wait for one miss after the other; plain loads ahead of them
                // overlap.
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
                // Another thread is about to remove it.
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

/// The number of tables whose words are loaded ahead.
const AHEAD: usize = 16;

/// Write-protects the pages of a table, for formats whose upper entries cannot forbid stores.
/// Applies to shared mappings as well. No store goes through a shared table, so that no page in it
/// becomes dirty after its users have looked.
fn protect_all<F: Format>(table: &LockedTable<'_>) {
    for i in 0..ENTRIES {
        let raw = table.load(i);
        if tag::is_page(raw) && F::is_writable(raw) {
            table.update::<F>(i, raw, F::write_protected);
        }
    }
}
