//! Effects of a page fault on the map alone: anon_vmas, the growth of stacks, and the errors.
//! `process/fault/` handles faults of a process with page tables, and `paging/fault.rs` fills one
//! entry of a page table.
//!
//! The first write to a private VMA gives it an anon_vma. The pages themselves belong to their
//! owner.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::pages::{NoPages, Pages};
use crate::space::AddressSpace;
use crate::space::areas::{Areas, Span};
use crate::vma::{AnonVma, Area, Vma};

impl AddressSpace {
    /// Reports a page fault at `address`, by a write or a read.
    ///
    /// # Errors
    /// `EFAULT` where Linux raises `SIGSEGV`: nothing is mapped, the protection forbids the access,
    /// or a stack cannot grow. `EHWPOISON` where a userfaultfd has poisoned the page and Linux
    /// raises `SIGBUS`.
    pub fn fault(&mut self, address: u64, write: bool) -> Result<(), Errno> {
        self.fault_with(address, write, &mut NoPages)
    }

    /// As [`fault`](Self::fault), with an owner of the pages, which is notified of a stack that
    /// grows. The page itself is the owner's matter.
    ///
    /// # Errors
    /// As [`fault`](Self::fault).
    pub fn fault_with<P: Pages + ?Sized>(
        &mut self,
        address: u64,
        write: bool,
        pages: &mut P,
    ) -> Result<(), Errno> {
        if self.areas.at(address).is_none() {
            self.grow_stack_with(address, pages)
                .map_err(|_| Errno::EFAULT)?;
        }
        let area = self.areas.at(address).ok_or(Errno::EFAULT)?;
        let flags = area.vma.flags;
        let allowed = if write {
            flags.contains(VmFlags::WRITE)
        } else {
            flags.intersects(VmFlags::ACCESS)
        };
        if !allowed || self.is_execute_only(flags) {
            return Err(Errno::EFAULT);
        }
        if !area.vma.has_page(address) {
            return Err(Errno::EFAULT);
        }
        if let Some((_, marker)) = self.guards.first_in(address, address + 1) {
            return Err(marker.refusal());
        }
        let private = area.vma.is_private();
        if flags.contains(VmFlags::HUGETLB) {
            self.fault_huge(address, address + 1, write)?;
        }
        if write && private {
            self.prepare_anon_vma(address);
        }
        Ok(())
    }

    /// Reports that `[start, end)` holds private pages: its private VMAs have an anon_vma from now
    /// on. Several VMAs get theirs upwards; the kernel's order, which decides which of them share
    /// one, cannot be known.
    pub fn note_written(&mut self, start: u64, end: u64) {
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let first = area.start;
            next = area.end;
            self.touch(first);
        }
    }

    /// Gives the VMA at `address` an anon_vma, if it is private and has none. It shares that of a
    /// neighbour if the two differ only in protection (the upper neighbour first), and otherwise
    /// gets a new one.
    pub(crate) fn touch(&mut self, address: u64) {
        if let Some(area) = self.areas.at(address)
            && area.vma.is_private()
        {
            assign_anon_vma(&self.areas, &mut self.next_anon, &area);
        }
    }

    /// As [`touch`](Self::touch), for shared VMAs too.
    pub(crate) fn prepare_anon_vma(&mut self, address: u64) {
        if let Some(area) = self.areas.at(address) {
            assign_anon_vma(&self.areas, &mut self.next_anon, &area);
        }
    }

    /// Faults in every page of `[start, end)`, as locking and populating do: for writing where the
    /// VMA is private and writable. Skips holes.
    ///
    /// # Errors
    /// `EFAULT` at a VMA without access, at a guard marker and beyond the end of an object,
    /// `EHWPOISON` at poison, and those of the owner of the pages. Pages below have been faulted
    /// in.
    pub(crate) fn populate<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let (from, to) = (area.start.max(start), area.end.min(end));
            next = area.end;
            let flags = area.vma.flags;
            if flags.intersects(VmFlags::IO | VmFlags::PFNMAP | VmFlags::LOCKONFAULT) {
                continue;
            }
            let write = flags.contains(VmFlags::WRITE) && !flags.contains(VmFlags::SHARED);
            self.fault_in(from, to, write, pages)?;
        }
        Ok(())
    }

    /// Faults in `[start, end)`, which lies in one VMA.
    ///
    /// # Errors
    /// As [`populate`](Self::populate).
    pub(crate) fn fault_in<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        write: bool,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let area = self.areas.at(start).ok_or(Errno::EFAULT)?;
        let flags = area.vma.flags;
        if !flags.intersects(VmFlags::ACCESS)
            || self.is_execute_only(flags)
            || !area.vma.has_page(start)
        {
            return Err(Errno::EFAULT);
        }
        let marked = self.guards.first_in(start, end);
        if let Some((at, marker)) = marked
            && at == start
        {
            return Err(marker.refusal());
        }
        if flags.contains(VmFlags::HUGETLB) {
            // No anon_vma is needed for a write: such VMAs never merge.
            return self.fault_huge(start, end, write);
        }
        let stop = marked.map_or(end, |(at, _)| at);
        let upto = area.vma.reach(start, stop);
        let outcome = match marked {
            // The shared object ends before `stop`.
            _ if !area.vma.has_page(stop - 1) => Err(Errno::EFAULT),
            Some((_, marker)) => Err(marker.refusal()),
            None => Ok(()),
        };
        let vma = area.vma;
        let huge = || flags.contains(VmFlags::HUGEPAGE) && vma.is_private() && vma.anon().is_none();
        if write || huge() && pages.is_owned_by_reading(start, upto, &area) {
            self.areas.before_change(start, start + 1)?;
            self.touch(start);
        }
        self.notify_populate(pages, start, upto, write)?;
        outcome
    }
}

/// Gives a VMA an anon_vma, if it has none. `last` is the last number that was given out.
fn assign_anon_vma(areas: &Areas, last: &mut u64, area: &Area<'_>) {
    if area.vma.anon().is_some() {
        return;
    }
    let mut span = Span::new(area.start, area.end);
    let neighbours = areas.neighbours(&mut span);
    let upper = neighbours
        .upper
        .filter(|upper| upper.start == area.end && could_share_anon_vma(area.vma, upper.vma))
        .and_then(|upper| reusable_anon_vma(upper.vma));
    let shared = upper.or_else(|| {
        neighbours
            .lower
            .filter(|lower| could_share_anon_vma(lower.vma, area.vma))
            .and_then(|lower| reusable_anon_vma(lower.vma))
    });
    let anon = shared.unwrap_or_else(|| AnonVma::next(last));
    area.vma.anon.set(Some(anon));
}

/// Returns `true` if two adjacent VMAs may share an anon_vma: they differ at most in protection.
pub(crate) fn could_share_anon_vma(lower: &Vma, upper: &Vma) -> bool {
    (lower.flags ^ upper.flags)
        .difference(VmFlags::ACCESS | VmFlags::SOFTDIRTY)
        .is_empty()
        && lower.shift == upper.shift
        && lower.backing.same(&upper.backing)
        && lower.policy == upper.policy
}

/// Returns the anon_vma that a neighbour may share: one that was not inherited.
pub(crate) fn reusable_anon_vma(vma: &Vma) -> Option<AnonVma> {
    vma.anon().filter(|anon| !anon.is_inherited())
}
