//! The page tables as the owner of an address space's pages: each notification of a call changes
//! them.
//!
//! Changes that need memory are made before the map changes (`prepare`): huge pages and shared
//! tables that cross the ends of a range are split. Operations on files (`msync`, `MADV_REMOVE`)
//! are recorded during the call, and done afterwards without the address space's lock.
//!
//! If a call may still be undone, changes are gathered, and applied at its end. `undoing` drops
//! them.
//!
//! | file | concept |
//! |---|---|
//! | `collapse` | huge pages in place of small ones |
//! | `deferred` | work on files and other processes, after the call |
//! | `nodes` | NUMA nodes of pages (`mbind`) |
//! | `table_op` | changes of the tables |
//! | `tee` | a second owner, notified of the same calls |

mod collapse;
mod deferred;
mod nodes;
mod table_op;
mod tee;

use alloc::vec::Vec;

use samara_paging::{Attrs, Change, Error, PageFilter, PageSize, Preallocation, WritePolicy};

use crate::abi::{MAP_LOCKED, MREMAP_FIXED, SyncFlags};
use crate::call::Call;
use crate::errno::Errno;
use crate::flags::{PAGE_MASK, PAGE_SIZE, PMD_SIZE, VmFlags, page_align};
use crate::object::Object;
use crate::pages::{Moving, PageAdvice, Pages, PrepareOp};
use crate::process::fault::vma_attrs;
use crate::process::file::{Inode, Zeroes};
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::owner::deferred::{Deferred, FileOp};
use crate::process::owner::table_op::TableOp;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::space::AddressSpace;
use crate::vma::{Area, Vma};

pub(super) use tee::Tee;

/// The marker of a guard (`MADV_GUARD_INSTALL`).
const GUARD: u32 = 1;

/// An address, and a preallocated table for the huge page that is split there.
type Split<'a, P> = (u64, Option<Preallocation<'a, Machine<P>>>);

/// The tables of one process during one call.
pub(super) struct Owner<'a, P: Platform> {
    mm: &'a Mm<P>,
    /// Preallocated tables for moves, by their source addresses.
    spares: Vec<(u64, Preallocation<'a, Machine<P>>)>,
    /// `true` if changes are gathered, because the call may still be undone.
    gathers: bool,
    /// The addresses at which the call may split VMAs without a notification, with preallocated
    /// tables. `None` if there is no huge page.
    splits: Option<[Split<'a, P>; 2]>,
    /// `true` once the call is being undone.
    undoing: bool,
    ops: Vec<TableOp<'a, P>>,
    /// Ranges to populate after the changes. The flag says if for writing.
    fills: Vec<(u64, u64, bool)>,
    deferred: Vec<Deferred>,
}

impl<'a, P: Platform> Owner<'a, P> {
    /// Creates the owner for one call. `mremap` to a fixed address gathers: it unmaps the target
    /// before it can fail for lack of memory.
    pub(super) fn new(mm: &'a Mm<P>, call: &Call) -> Self {
        if may_lock_memory(call) {
            mm.set_has_locked();
        }
        Owner {
            mm,
            spares: Vec::new(),
            gathers: matches!(call, Call::Mremap { flags, .. } if flags & MREMAP_FIXED != 0),
            splits: if mm.may_need_split() {
                splits(call).map(|ends| ends.map(|addr| (addr, None)))
            } else {
                None
            },
            undoing: false,
            ops: Vec::new(),
            fills: Vec::new(),
            deferred: Vec::new(),
        }
    }

    /// Preallocates tables, before the call begins, for the huge pages that are split where the
    /// call may split VMAs.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline]
    pub(super) fn preallocate(&mut self) -> Result<(), Errno> {
        match self.splits {
            Some(_) => self.preallocate_splits(),
            None => Ok(()),
        }
    }

    #[cold]
    fn preallocate_splits(&mut self) -> Result<(), Errno> {
        let tables = &self.mm.tables;
        for (addr, spare) in self.splits.iter_mut().flatten() {
            if !addr.is_multiple_of(PMD_SIZE) {
                *spare = match tables.preallocate_split(*addr, PageSize::Small) {
                    Ok(spare) => Some(spare),
                    Err(Error::NoMemory) => return Err(Errno::ENOMEM),
                    // The address holds no page.
                    Err(_) => None,
                };
            }
        }
        Ok(())
    }

    /// Applies the gathered changes. `space` is the map after the call.
    ///
    /// Preconditions: the address space is still locked, and the VMAs that the call has changed are
    /// still closed.
    ///
    /// # Errors
    /// `ENOMEM`, unless everything was prepared.
    #[inline]
    pub(super) fn apply(&mut self, space: &AddressSpace) -> Result<(), Errno> {
        if self.ops.is_empty() && self.fills.is_empty() && self.splits.is_none() {
            return Ok(());
        }
        self.apply_each(space)
    }

    #[cold]
    fn apply_each(&mut self, space: &AddressSpace) -> Result<(), Errno> {
        let mut result = Ok(());
        for op in self.ops.drain(..) {
            result = result.and(self.mm.apply(op));
        }
        for (start, end, write) in core::mem::take(&mut self.fills) {
            let mut next = start;
            while let Some(area) = space.areas.find_in(next, end) {
                next = area.end;
                // Pages that cannot be populated stay absent.
                let _ = self.fault_in(area.start.max(start), area.end.min(end), &area, write);
            }
        }
        let (tables, tlb) = (&self.mm.tables, self.mm.machine.tlb());
        for (addr, spare) in self.splits.take().into_iter().flatten() {
            if let Some(mut spare) = spare
                && space.areas.at(addr).is_some_and(|area| area.start == addr)
            {
                // Without memory, only a page that a concurrent fault mapped may stay whole. It is
                // right for both VMAs.
                let _ = tables.split_with(addr, PageSize::Small, &mut spare, tlb);
            }
        }
        result
    }

    fn fault_in(&self, start: u64, end: u64, area: &Area<'_>, write: bool) -> Result<(), Errno> {
        let mut page = start;
        if write {
            page = self.mm.fill_anon(area, start, end);
        }
        while page < end {
            self.mm
                .fault_in(area, page, write)
                .map_err(|fault| match fault {
                    Fault::NoMemory => Errno::ENOMEM,
                    Fault::Signal { .. } | Fault::Deadlock => Errno::EFAULT,
                })?;
            page += PAGE_SIZE;
        }
        Ok(())
    }

    /// Does the deferred work of the call.
    ///
    /// Preconditions: the address space is not locked.
    ///
    /// # Errors
    /// The call's.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Errno> {
        if self.deferred.is_empty() {
            let gathered = self.ops.capacity() | self.fills.capacity() | self.deferred.capacity();
            if self.spares.capacity() | gathered == 0 {
                // Most calls have nothing to drop, which this test sees at once.
                core::mem::forget(self);
            }
            return Ok(());
        }
        self.change_files()
    }

    #[cold]
    fn change_files(mut self) -> Result<(), Errno> {
        let mut result = Ok(());
        for deferred in self.deferred.drain(..) {
            result = result.and(deferred.perform(self.mm));
        }
        result
    }

    fn submit(&mut self, op: TableOp<'a, P>) -> Result<(), Errno> {
        if self.undoing {
            return Ok(());
        }
        if !self.gathers {
            return self.mm.apply(op);
        }
        self.ops.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.ops.push(op);
        Ok(())
    }

    /// Performs `MADV_PAGEOUT`. Out of line, so that other advices do without its stack frame.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn page_out(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        if vma.flags.contains(VmFlags::DROPPABLE) {
            // Droppable memory has no backing, so its dirty pages count as not needed.
            let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
            self.submit(TableOp::Advise(start..end, change))?;
        }
        if let Some(inode) = Inode::of(vma) {
            // No byte changes, so it need not be undone.
            self.mm.page_out(start, end, vma, inode);
        } else if vma.flags.contains(VmFlags::DROPPABLE) {
            self.submit(TableOp::DropIdle(start..end))?;
        } else {
            let mut done = Ok(());
            self.mm.droppable_parts(start..end, |part| {
                done = done.and_then(|()| self.submit(TableOp::DropIdle(part)));
            });
            done?;
        }
        // As above.
        self.mm.swap_out(start, end, vma);
        Ok(())
    }

    /// Preallocates tables for a move, unless it was done before.
    #[cold]
    fn preallocate_move(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        if self.spares.iter().all(|(start, _)| *start != from) {
            self.spares.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            let spare = self.mm.tables.preallocate_move(from, to, len);
            self.spares.push((from, spare.map_err(|_| Errno::ENOMEM)?));
        }
        Ok(())
    }

    fn defer(&mut self, deferred: Option<Deferred>) -> Result<(), Errno> {
        if let Some(deferred) = deferred {
            self.deferred.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.deferred.push(deferred);
        }
        Ok(())
    }

    /// Splits huge pages and shared tables in the range.
    fn split_shared(&self, start: u64, end: u64) -> Result<(), Errno> {
        self.mm.apply(TableOp::Protect(
            start..end,
            Change::without(Attrs::empty()),
        ))
    }

    /// Splits huge pages and shared tables at one end of a range.
    fn split_shared_at(&self, addr: u64) -> Result<(), Errno> {
        if addr.is_multiple_of(PMD_SIZE) {
            return Ok(());
        }
        self.split_shared(addr, addr + PAGE_SIZE)
    }

    /// Splits the huge page that crosses an address. Tables may stay shared.
    fn split_huge_at(&self, addr: u64) -> Result<(), Errno> {
        if addr.is_multiple_of(PMD_SIZE) {
            return Ok(());
        }
        let (tables, tlb) = (&self.mm.tables, self.mm.machine.tlb());
        match tables.split(addr, PageSize::Small, tlb) {
            Err(Error::NoMemory) => Err(Errno::ENOMEM),
            // There may be no page.
            _ => Ok(()),
        }
    }
}

/// Returns `true` if a call may lock memory, now or later.
fn may_lock_memory(call: &Call) -> bool {
    match *call {
        Call::Mlock { .. } | Call::Mlockall { .. } => true,
        Call::Mmap { flags, .. } => flags & MAP_LOCKED != 0,
        _ => false,
    }
}

/// Returns the ends of the VMA that a call may create without a notification for its pages. Linux
/// splits a huge page where its VMA is split.
fn splits(call: &Call) -> Option<[u64; 2]> {
    match *call {
        Call::Madvise { addr, len, .. }
        | Call::Mlock { addr, len, .. }
        | Call::Munlock { addr, len }
        | Call::Mbind { addr, len, .. }
        | Call::SetMempolicyHomeNode { addr, len, .. }
        | Call::Mseal { addr, len, .. }
        | Call::SetVmaName { addr, len, .. } => {
            // A length that wraps around is refused before.
            let end = addr.wrapping_add(page_align(len));
            Some([addr & PAGE_MASK, end])
        }
        _ => None,
    }
}

impl<P: Platform> Pages for Owner<'_, P> {
    /// Returns `false`: a new mapping needs no entries, since faults create them.
    fn listens_to_maps(&self) -> bool {
        false
    }

    fn refuses(&self) -> bool {
        self.gathers
    }

    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        if let PrepareOp::Move { from, to, len } = op {
            self.preallocate_move(from, to, len)?;
        }
        if !self.mm.may_need_split() {
            return Ok(());
        }
        match op {
            PrepareOp::Unmap { start, end } => {
                self.split_shared_at(start)?;
                self.split_shared_at(end)
            }
            PrepareOp::Protect { start, end } => self.split_shared(start, end),
            PrepareOp::Split { at } => self.split_huge_at(at),
            PrepareOp::Move { from, len, .. } => self.split_shared(from, from + len),
            // New pages come by faults.
            PrepareOp::Map { .. } => Ok(()),
        }
    }

    fn map(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
        Ok(())
    }

    /// Does nothing, since [`vacate`](Self::vacate) follows.
    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    /// Unmaps the whole range, whose ends were prepared. Part by part, a shared table would have to
    /// be copied.
    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.submit(TableOp::Unmap(start..end))
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let write = if vma.is_private() {
            WritePolicy::Exclusive
        } else {
            // The file was notified of the first write, and so of every dirty entry.
            WritePolicy::Dirty
        };
        let change = Change::access(vma_attrs(vma.flags), write);
        self.submit(TableOp::Protect(start..end, change))
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        let prepared = self.spares.iter().position(|(start, _)| *start == from);
        let spare = prepared.map(|at| self.spares.swap_remove(at).1);
        self.submit(TableOp::Move(from, to, len, spare))
    }

    /// Gathered changes may empty a table later.
    fn asks_what_is_left(&self) -> bool {
        self.gathers || self.mm.retained_tables().any()
    }

    fn left_around(&mut self, start: u64, end: u64, below: u64, above: u64) {
        // Without memory to note it, a table counts as still present.
        let _ = self.submit(TableOp::FreeTables(start..end, below, above));
    }

    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        match advice {
            PageAdvice::DontNeed => self.submit(TableOp::Discard(start..end)),
            PageAdvice::GuardInstall => {
                self.submit(TableOp::Discard(start..end))?;
                self.submit(TableOp::InstallGuards(start..end, GUARD))
            }
            PageAdvice::GuardRemove => self.submit(TableOp::RemoveGuards(start..end, GUARD)),
            PageAdvice::Remove => self.defer(Deferred::of(start, end, vma, FileOp::Punch)),
            PageAdvice::Free => {
                // Clean private memory may be dropped. The next write faults and sets the dirty bit
                // again, so programs that interpret the tables need not set it.
                let change = Change::without(Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED);
                self.submit(TableOp::Advise(
                    start..end,
                    change.filter(PageFilter::ExceptSharedHuge),
                ))?;
                if self.mm.machine.needed_pages().has_locked() {
                    return self.defer(Some(Deferred::Freed(start..end)));
                }
                Ok(())
            }
            PageAdvice::Cold => {
                let change = Change::without(Attrs::ACCESSED);
                self.submit(TableOp::Advise(
                    start..end,
                    change.filter(PageFilter::Exclusive),
                ))
            }
            PageAdvice::PageOut => self.page_out(start, end, vma),
            // No byte changes, so it need not be undone.
            PageAdvice::Collapse => self.mm.collapse(start, end, vma),
            PageAdvice::Unmerge => self.mm.unmerge(&Area { start, end, vma }, start, end),
            // Pages are read by faults.
            PageAdvice::WillNeed => Ok(()),
        }
    }

    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        self.mm.strays(start, end, nodes, moving)
    }

    fn is_owned_by_reading(&mut self, start: u64, end: u64, area: &Area<'_>) -> bool {
        let mut page = start;
        while page < end {
            if self.mm.is_owned_by_reading(area, page) {
                return true;
            }
            page = match (page | (PMD_SIZE - 1)).checked_add(1) {
                Some(next) => next,
                None => break,
            };
        }
        false
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        if self.ops.is_empty() {
            return self.fault_in(start, end, area, write);
        }
        // The call may still be undone: `mprotect` populates one VMA, and then changes the next. No
        // caller of such changes needs the result of populating.
        self.fills.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.fills.push((start, end, write));
        Ok(())
    }

    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        if !flags.contains(SyncFlags::SYNC) || !vma.flags.contains(VmFlags::SHARED) {
            return Ok(());
        }
        self.defer(Deferred::of(start, end, vma, FileOp::WriteBack))
    }

    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        Inode::object(Zeroes { pages })
    }

    /// Drops all gathered changes of the call.
    fn undoing(&mut self) {
        self.undoing = true;
        self.ops.clear();
        self.fills.clear();
        self.deferred.clear();
    }
}
