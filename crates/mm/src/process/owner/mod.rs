//! The tables as the owner of an address space's pages: what calls tell is done to them.
//!
//! What needs memory is done before the map changes (`prepare`): whatever is divided at the ends of a range by a huge page or a shared table is
//! made whole and own. What goes to files (`msync`, `MADV_REMOVE`) is noted during the call, and done afterwards without the address space's lock.
//!
//! | file | concept |
//! |---|---|
//! | `act` | what is done to the tables |
//! | `collapse` | huge pages in the place of small ones |
//! | `later` | what is done to files and beside others after the call |
//! | `nodes` | where pages lie (`mbind`) |
//! | `second` | another owner, which is told, too |

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
use crate::pages::{Moving, Object, PageAdvice, Pages, PrepareOp};
use crate::process::fault::vma_attrs;
use crate::process::file::{Inode, Zeroes};
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::owner::deferred::{Deferred, FileOp};
use crate::process::owner::table_op::TableOp;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::space::AddressSpace;
use crate::space::vma::{Area, Vma};

pub(super) use tee::Tee;

/// What stands in the tables where a guard is (`MADV_GUARD_INSTALL`).
const GUARD: u32 = 1;

/// An address, and a table for the huge page that is cut there.
type Split<'a, P> = (u64, Option<Preallocation<'a, Machine<P>>>);

/// The tables of one process during one call.
pub(super) struct Owner<'a, P: Platform> {
    mm: &'a Mm<P>,
    /// Tables for what is to be moved, and from where.
    spares: Vec<(u64, Preallocation<'a, Machine<P>>)>,
    /// Whether changes are gathered, since the call may still be undone.
    gathers: bool,
    /// Where the call may divide areas without telling, if huge pages may be divided with them, and tables for that.
    splits: Option<[Split<'a, P>; 2]>,
    /// The call is being undone.
    undoing: bool,
    ops: Vec<TableOp<'a, P>>,
    /// Ranges to be filled in after that, and whether for writing.
    fills: Vec<(u64, u64, bool)>,
    deferred: Vec<Deferred>,
}

impl<'a, P: Platform> Owner<'a, P> {
    /// For one call. A move to a fixed place unmaps what is there before it can fail for want of memory: it gathers.
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

    /// Sets tables aside, before the call begins, for the huge pages that are divided where the call may divide areas.
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
                    // No address of a page: nothing is there.
                    Err(_) => None,
                };
            }
        }
        Ok(())
    }

    /// Does what was gathered, with the address space still locked, and the areas that the call has changed: this is the map.
    ///
    /// # Errors
    /// `ENOMEM`, unless all was prepared.
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
                // What cannot be filled in stays empty.
                let _ = self.fault_in(area.start.max(start), area.end.min(end), &area, write);
            }
        }
        let (tables, tlb) = (&self.mm.tables, self.mm.machine.tlb());
        for (addr, spare) in self.splits.take().into_iter().flatten() {
            if let Some(mut spare) = spare
                && space.areas.at(addr).is_some_and(|area| area.start == addr)
            {
                // Only a page that a fault brought meanwhile may stay whole, for want of memory. It is right for both areas.
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

    /// What the call has left to be done with files; the address space is not locked.
    ///
    /// # Errors
    /// The call's.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Errno> {
        if self.deferred.is_empty() {
            let gathered = self.ops.capacity() | self.fills.capacity() | self.deferred.capacity();
            if self.spares.capacity() | gathered == 0 {
                // Most calls: there is nothing to drop, which is seen here at once.
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

    /// `MADV_PAGEOUT`. A call, whose frame the other advices do without.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn page_out(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        if vma.flags.contains(VmFlags::DROPPABLE) {
            // It has no other place: what was written counts as needed by nobody.
            let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
            self.submit(TableOp::Advise(start..end, change))?;
        }
        if let Some(inode) = Inode::of(vma) {
            // No byte changes: it need not be undone.
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
        // The same.
        self.mm.swap_out(start, end, vma);
        Ok(())
    }

    /// Tables for a move, unless they are there already.
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

    /// Nothing that is shared or huge reaches across the ends of any part of the range.
    fn split_shared(&self, start: u64, end: u64) -> Result<(), Errno> {
        self.mm.apply(TableOp::Protect(
            start..end,
            Change::without(Attrs::empty()),
        ))
    }

    /// The same for one end of a range.
    fn split_shared_at(&self, addr: u64) -> Result<(), Errno> {
        if addr.is_multiple_of(PMD_SIZE) {
            return Ok(());
        }
        self.split_shared(addr, addr + PAGE_SIZE)
    }

    /// No huge page reaches across an address; tables may be shared as before.
    fn split_huge_at(&self, addr: u64) -> Result<(), Errno> {
        if addr.is_multiple_of(PMD_SIZE) {
            return Ok(());
        }
        let (tables, tlb) = (&self.mm.tables, self.mm.machine.tlb());
        match tables.split(addr, PageSize::Small, tlb) {
            Err(Error::NoMemory) => Err(Errno::ENOMEM),
            // Nothing may be there.
            _ => Ok(()),
        }
    }
}

/// Whether a call may lock memory, now or later.
fn may_lock_memory(call: &Call) -> bool {
    match *call {
        Call::Mlock { .. } | Call::Mlockall { .. } => true,
        Call::Mmap { flags, .. } => flags & MAP_LOCKED != 0,
        _ => false,
    }
}

/// The ends of what a call may make an area of its own, of whose pages it tells nothing. Linux divides a huge page where its area is divided.
fn splits(call: &Call) -> Option<[u64; 2]> {
    match *call {
        Call::Madvise { addr, len, .. }
        | Call::Mlock { addr, len, .. }
        | Call::Munlock { addr, len }
        | Call::Mbind { addr, len, .. }
        | Call::SetMempolicyHomeNode { addr, len, .. }
        | Call::Mseal { addr, len, .. }
        | Call::SetVmaName { addr, len, .. } => {
            // Of a length that wraps around, nothing has come.
            let end = addr.wrapping_add(page_align(len));
            Some([addr & PAGE_MASK, end])
        }
        _ => None,
    }
}

impl<P: Platform> Pages for Owner<'_, P> {
    /// Tables have nothing to do with what is mapped: faults bring it in.
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
            _ => Ok(()),
        }
    }

    fn map(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
        Ok(())
    }

    /// Does nothing: [`vacate`](Self::vacate) follows.
    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    /// The whole range, whose ends were prepared. Of a part up to a hole, a shared table would have to be copied.
    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.submit(TableOp::Unmap(start..end))
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let write = if vma.is_private() {
            WritePolicy::Exclusive
        } else {
            // The file is told of the first write; what is dirty here it has been told of.
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

    /// What is gathered may empty a table later.
    fn asks_what_is_left(&self) -> bool {
        self.gathers || self.mm.retained_tables().any()
    }

    fn left_around(&mut self, start: u64, end: u64, below: u64, above: u64) {
        // Where there is no memory to note it, a table is taken for one that is still there.
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
                // Clean private memory may be dropped. The next write takes a fault, which makes the page dirty again: who runs programs over the tables need not
                // keep dirty bits.
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
            // No byte changes: it need not be undone.
            PageAdvice::Collapse => self.mm.collapse(start, end, vma),
            PageAdvice::Unmerge => self.mm.unmerge(&Area { start, end, vma }, start, end),
            _ => Ok(()),
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
        // The call may still be undone: `mprotect` fills in one area, and then changes the next. Calls that fill in after such changes do not ask whether it
        // was done.
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

    /// Nothing of the call is to be done.
    fn undoing(&mut self) {
        self.undoing = true;
        self.ops.clear();
        self.fills.clear();
        self.deferred.clear();
    }
}
