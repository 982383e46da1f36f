//! `madvise(2)`.

use crate::abi;
use crate::calls::prctl::may_be_merged_by_content;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{PageAdvice, Pages};
use crate::space::AddressSpace;
use crate::space::huge::size_of;
use crate::space::vma::{Backing, Vma};

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn do_madvise<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        advice: i32,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if !self.knows_advice(advice) || !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let rounded = page_align(len);
        if len != 0 && rounded == 0 {
            return Err(Errno::EINVAL);
        }
        let end = addr.checked_add(rounded).ok_or(Errno::EINVAL)?;
        if end == addr {
            return Ok(0);
        }
        if advice == abi::MADV_POPULATE_READ || advice == abi::MADV_POPULATE_WRITE {
            let write = advice == abi::MADV_POPULATE_WRITE;
            if self.config.kernel.has(Rule::PopulateStopsAtHoles) {
                return self.populate_by_advice(addr, end, write, pages);
            }
            let whole = self.for_parts(addr, end, |space, from, to| {
                space.populate_by_advice(from, to, write, pages).map(|_| ())
            })?;
            return if whole { Ok(0) } else { Err(Errno::ENOMEM) };
        }
        let whole = self.for_parts(addr, end, |space, from, to| {
            space.advise(from, to, advice, pages)
        })?;
        if whole { Ok(0) } else { Err(Errno::ENOMEM) }
    }

    fn knows_advice(&self, advice: i32) -> bool {
        match advice {
            abi::MADV_NORMAL..=abi::MADV_DONTNEED
            | abi::MADV_FREE..=abi::MADV_DOFORK
            | abi::MADV_DONTDUMP..=abi::MADV_DONTNEED_LOCKED => true,
            abi::MADV_GUARD_INSTALL | abi::MADV_GUARD_REMOVE => {
                self.config.kernel.has(Rule::GuardMarkers)
            }
            abi::MADV_MERGEABLE | abi::MADV_UNMERGEABLE => self.config.ksm,
            abi::MADV_HUGEPAGE | abi::MADV_NOHUGEPAGE | abi::MADV_COLLAPSE => {
                self.config.transparent_huge_pages
            }
            _ => false,
        }
    }

    /// Advice for `[start, end)` within one area.
    fn advise<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        advice: i32,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let vma = area.vma;
        let old = vma.flags;
        if old.contains(VmFlags::SEALED) && discards(advice) && !self.may_discard(vma) {
            return Err(Errno::EPERM);
        }
        let new = match advice {
            abi::MADV_NORMAL => old - VmFlags::SEQ_READ - VmFlags::RAND_READ,
            abi::MADV_RANDOM => (old - VmFlags::SEQ_READ) | VmFlags::RAND_READ,
            abi::MADV_SEQUENTIAL => (old - VmFlags::RAND_READ) | VmFlags::SEQ_READ,
            abi::MADV_DONTFORK => old | VmFlags::DONTCOPY,
            abi::MADV_DOFORK if old.contains(VmFlags::IO) => return Err(Errno::EINVAL),
            abi::MADV_DOFORK => old - VmFlags::DONTCOPY,
            abi::MADV_WIPEONFORK
                if !matches!(vma.backing, Backing::Anonymous | Backing::Special(_))
                    || old.contains(VmFlags::SHARED) =>
            {
                return Err(Errno::EINVAL);
            }
            abi::MADV_WIPEONFORK => old | VmFlags::WIPEONFORK,
            abi::MADV_KEEPONFORK if old.contains(VmFlags::DROPPABLE) => return Err(Errno::EINVAL),
            abi::MADV_KEEPONFORK => old - VmFlags::WIPEONFORK,
            abi::MADV_DONTDUMP => old | VmFlags::DONTDUMP,
            abi::MADV_DODUMP
                if old.intersects(VmFlags::SPECIAL) && !old.contains(VmFlags::HUGETLB)
                    || old.contains(VmFlags::DROPPABLE) =>
            {
                return Err(Errno::EINVAL);
            }
            abi::MADV_DODUMP => old - VmFlags::DONTDUMP,
            abi::MADV_MERGEABLE if may_be_merged_by_content(vma) => old | VmFlags::MERGEABLE,
            abi::MADV_UNMERGEABLE => old - VmFlags::MERGEABLE,
            abi::MADV_HUGEPAGE => (old - VmFlags::NOHUGEPAGE) | VmFlags::HUGEPAGE,
            abi::MADV_NOHUGEPAGE => (old - VmFlags::HUGEPAGE) | VmFlags::NOHUGEPAGE,
            _ => return self.advise_pages(start, end, advice, pages),
        };
        if new == old {
            return Ok(());
        }
        if advice == abi::MADV_UNMERGEABLE && vma.anon().is_some() {
            self.notify_advice(pages, start, end, PageAdvice::Unmerge)?;
        }
        self.alter(start, end, |vma| vma.flags = new)
            .map_err(|error| match error {
                // Not for want of memory, which this does not pass off as something else.
                Errno::ENOMEM if self.at_map_limit() => Errno::EAGAIN,
                error => error,
            })
    }

    /// What a sealed area may lose: what its owner could overwrite anyway, and what is not its own.
    fn may_discard(&self, vma: &Vma) -> bool {
        let own = vma.is_anonymous()
            && (vma.file().is_none() || self.config.kernel.has(Rule::SealedZeroIsKept));
        vma.flags.contains(VmFlags::WRITE) || !own
    }

    /// Advice about pages, which leaves the areas as they are.
    fn advise_pages<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        advice: i32,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let vma = area.vma;
        let (start_of, end_of) = (area.start, area.end);
        let flags = vma.flags;
        let size = match flags.contains(VmFlags::HUGETLB) {
            true => size_of(vma),
            false => None,
        };
        let pinned = VmFlags::LOCKED | VmFlags::PFNMAP | VmFlags::HUGETLB;
        let possible = match advice {
            abi::MADV_DONTNEED => !flags.intersects(VmFlags::LOCKED | VmFlags::PFNMAP),
            abi::MADV_FREE => {
                !flags.intersects(VmFlags::LOCKED | VmFlags::PFNMAP) && vma.is_anonymous()
            }
            abi::MADV_DONTNEED_LOCKED => !flags.contains(VmFlags::PFNMAP),
            abi::MADV_COLD | abi::MADV_PAGEOUT => !flags.intersects(pinned),
            abi::MADV_REMOVE => {
                let has_object = !vma.is_special() && !matches!(vma.backing, Backing::Anonymous);
                if flags.contains(VmFlags::LOCKED) || !has_object {
                    return Err(Errno::EINVAL);
                }
                if !flags.contains(VmFlags::SHARED | VmFlags::MAYWRITE) {
                    return Err(Errno::EACCES);
                }
                true
            }
            abi::MADV_GUARD_INSTALL => {
                let anonymous = vma.is_anonymous();
                let possible = !flags
                    .intersects(VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::LOCKED)
                    && (anonymous || self.config.kernel.has(Rule::FileGuardMarkers));
                if possible {
                    self.areas.before_change(start, start + 1)?;
                    self.guards_mut()?.install(start, end)?;
                    self.mark_guarded(start, anonymous);
                }
                possible
            }
            abi::MADV_COLLAPSE => {
                // Both ends within one huge page are refused, though not if one of them is its edge.
                let first = start.checked_next_multiple_of(PMD_SIZE);
                let last = end & !(PMD_SIZE - 1);
                may_hold_huge_page(start_of, end_of, vma)
                    && first.is_some_and(|first| first <= last)
            }
            abi::MADV_GUARD_REMOVE => {
                let possible = !flags.intersects(VmFlags::SPECIAL | VmFlags::HUGETLB)
                    && (vma.is_anonymous() || self.config.kernel.has(Rule::FileGuardMarkers));
                if possible && self.guards.first_in(start, end).is_some() {
                    self.guards_mut()?.remove_guards(start, end)?;
                }
                possible
            }
            _ => true,
        };
        if !possible {
            return Err(Errno::EINVAL);
        }
        let mut end = end;
        match (size, advice) {
            (Some(size), abi::MADV_DONTNEED | abi::MADV_DONTNEED_LOCKED) => {
                end = self.discard_huge(start, end, size)?;
            }
            (Some(size), abi::MADV_REMOVE) => self.punch_huge(start, end, size),
            _ => {}
        }
        if let abi::MADV_DONTNEED | abi::MADV_DONTNEED_LOCKED | abi::MADV_FREE = advice {
            self.clear_poison(start, end)?;
        }
        match PageAdvice::of(advice) {
            Some(_) if start == end => Ok(()),
            Some(advice) => self.notify_advice(pages, start, end, advice),
            None => Ok(()),
        }?;
        if advice == abi::MADV_COLLAPSE && flags.contains(VmFlags::SHARED) {
            // A huge page of the object takes the place of the page table that held the poison. That the ends are in order was seen above.
            self.clear_poison(start.next_multiple_of(PMD_SIZE), end & !(PMD_SIZE - 1))?;
        }
        Ok(())
    }

    /// Guard markers have come into the area at `start`.
    fn mark_guarded(&mut self, start: u64, anonymous: bool) {
        if let Some(area) = self.areas.at(start) {
            area.vma.guarded.set();
        }
        if anonymous {
            // Markers in the page tables must survive fork, which copies those of areas with an owner.
            self.touch(start);
        }
    }

    fn populate_by_advice<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        write: bool,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let mut next = start;
        while next < end {
            let area = self.areas.at(next).ok_or(Errno::ENOMEM)?;
            let to = area.end.min(end);
            let flags = area.vma.flags;
            let needed = if write { VmFlags::WRITE } else { VmFlags::READ };
            if flags.intersects(VmFlags::IO | VmFlags::PFNMAP) || !flags.contains(needed) {
                return Err(Errno::EINVAL);
            }
            self.fault_in(next, to, write, pages)?;
            next = to;
        }
        Ok(0)
    }
}

impl PageAdvice {
    /// What advice does with pages.
    pub(crate) fn of(advice: i32) -> Option<Self> {
        Some(match advice {
            abi::MADV_DONTNEED | abi::MADV_DONTNEED_LOCKED => PageAdvice::DontNeed,
            abi::MADV_FREE => PageAdvice::Free,
            abi::MADV_REMOVE => PageAdvice::Remove,
            abi::MADV_GUARD_INSTALL => PageAdvice::GuardInstall,
            abi::MADV_GUARD_REMOVE => PageAdvice::GuardRemove,
            abi::MADV_WILLNEED => PageAdvice::WillNeed,
            abi::MADV_COLD => PageAdvice::Cold,
            abi::MADV_PAGEOUT => PageAdvice::PageOut,
            abi::MADV_COLLAPSE => PageAdvice::Collapse,
            abi::MADV_UNMERGEABLE => PageAdvice::Unmerge,
            _ => return None,
        })
    }
}

/// Advice that may lose what is in the pages.
fn discards(advice: i32) -> bool {
    matches!(
        advice,
        abi::MADV_FREE
            | abi::MADV_DONTNEED
            | abi::MADV_DONTNEED_LOCKED
            | abi::MADV_REMOVE
            | abi::MADV_DONTFORK
            | abi::MADV_WIPEONFORK
            | abi::MADV_GUARD_INSTALL
    )
}

/// Whether a huge page fits into the area `[start, end)`, and may be put there. Whether there is one to be had is not known.
fn may_hold_huge_page(start: u64, end: u64, vma: &Vma) -> bool {
    let never = VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::NOHUGEPAGE;
    let aligned = match &vma.backing {
        // What was never written has nothing to put there.
        _ if vma.is_anonymous() => vma.anon().is_some(),
        Backing::SharedAnonymous(_) | Backing::Shm { .. } => {
            vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::File(file) => {
            file.kind == FileKind::Shmem && vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::Anonymous | Backing::Special(_) => false,
    };
    // The kernel looks for the last one in the area. Of one that ends in the lowest 2 MiB it looks beyond the end of all numbers, and finds it.
    let last = end.wrapping_sub(PMD_SIZE) & !(PMD_SIZE - 1);
    let fits = last >= start && last.wrapping_add(PMD_SIZE) <= end;
    fits && aligned && !vma.flags.intersects(never)
}
