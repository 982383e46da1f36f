//! Page faults, as far as the map is concerned: the first write to a private area gives it an anon_vma.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::pages::{NoPages, Pages};
use crate::space::AddressSpace;
use crate::space::areas::{Areas, Span};
use crate::space::vma::{AnonVma, Area, Vma};

impl AddressSpace {
    /// A page fault at `address`, for a write or a read.
    ///
    /// # Errors
    /// `EFAULT` where Linux raises `SIGSEGV`: nothing is mapped there, or the protection forbids the access; growth of a stack that is
    /// not possible likewise. `EHWPOISON` where a userfaultfd has poisoned the page, and Linux raises `SIGBUS`.
    pub fn fault(&mut self, address: u64, write: bool) -> Result<(), Errno> {
        self.fault_with(address, write, &mut NoPages)
    }

    /// As [`fault`](Self::fault), for the owner of the pages: it is told of a stack that grows. The page itself is its own affair.
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

    /// Private pages are known to be present in `[start, end)`: its private areas have an anon_vma from now on.
    /// Where several areas are new, they are taken upwards; the kernel's order, which decides who shares with whom, cannot be known.
    pub fn note_written(&mut self, start: u64, end: u64) {
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let first = area.start;
            next = area.end;
            self.touch(first);
        }
    }

    /// Gives the area at `address` an anon_vma, if it is private and has none: a neighbour's when the two could become one
    /// but for their protection (the upper neighbour's first), or else its own.
    pub(crate) fn touch(&mut self, address: u64) {
        if let Some(area) = self.areas.at(address)
            && area.vma.is_private()
        {
            assign_anon_vma(&self.areas, &mut self.next_anon, &area);
        }
    }

    /// As [`touch`](Self::touch), for shared areas too.
    pub(crate) fn prepare_anon_vma(&mut self, address: u64) {
        if let Some(area) = self.areas.at(address) {
            assign_anon_vma(&self.areas, &mut self.next_anon, &area);
        }
    }

    /// Faults in every page of `[start, end)`, as locking and populating do: for writing where the area is private and
    /// writable. Holes are passed over.
    ///
    /// # Errors
    /// `EFAULT` at an area without access, at a guard marker and beyond the end of an object, `EHWPOISON` at poison, or the owner's of the pages;
    /// what lies before has been faulted in.
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

    /// Faults in `[start, end)`, which lies in one area.
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
            // As for a mapping of a file, a write need not find an owner of private pages: no such areas ever join.
            return self.fault_huge(start, end, write);
        }
        let stop = marked.map_or(end, |(at, _)| at);
        let upto = area.vma.reach(start, stop);
        let outcome = match marked {
            // A shared object ends before.
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

/// Gives an area an owner of private pages, if it has none; `last` is the number that was given away last.
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

/// Two areas would be one if their protections were equal.
pub(crate) fn could_share_anon_vma(lower: &Vma, upper: &Vma) -> bool {
    (lower.flags ^ upper.flags)
        .difference(VmFlags::ACCESS | VmFlags::SOFTDIRTY)
        .is_empty()
        && lower.shift == upper.shift
        && lower.backing.same(&upper.backing)
        && lower.policy == upper.policy
}

/// The owner that a neighbour may take over: not one that was inherited.
pub(crate) fn reusable_anon_vma(vma: &Vma) -> Option<AnonVma> {
    vma.anon().filter(|anon| !anon.is_inherited())
}
