//! `madvise(2)`: checks, the walk over the VMAs of the range, and the effect on each. `advice.rs` has the table of values.

use crate::abi::KnownAdvice;
use crate::calls::advice::Effect;
use crate::calls::prctl::may_be_merged_by_content;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{PageAdvice, Pages};
use crate::space::AddressSpace;
use crate::space::huge::size_of;
use crate::vma::{Area, Backing, Vma};

impl AddressSpace {
    /// Performs `madvise`.
    ///
    /// # Errors
    /// Linux's. At the first VMA that refuses the advice; VMAs below have taken it.
    #[inline(never)]
    pub(crate) fn do_madvise<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        advice: i32,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let advice = KnownAdvice::new(advice).ok_or(Errno::EINVAL)?;
        let spec = advice.spec();
        if !spec.needs.are_met(&self.config) || !addr.is_multiple_of(PAGE_SIZE) {
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
        let whole = match spec.effect {
            Effect::Populate { write } if self.config.kernel.has(Rule::PopulateStopsAtHoles) => {
                return self.populate_by_advice(addr, end, write, pages);
            }
            Effect::Populate { write } => self.for_parts(addr, end, |space, from, to| {
                space.populate_by_advice(from, to, write, pages).map(|_| ())
            })?,
            Effect::Flags { .. } | Effect::Pages(_) => {
                self.for_parts(addr, end, |space, from, to| {
                    space.advise(from, to, advice, pages)
                })?
            }
        };
        if whole { Ok(0) } else { Err(Errno::ENOMEM) }
    }

    /// Applies advice to `[start, end)`, which lies in one VMA.
    ///
    /// # Errors
    /// `EPERM` if the VMA is sealed and contents would be lost, those of [`applies`](Self::applies), `EAGAIN` at the limit on the number of VMAs,
    /// `ENOMEM` when an allocation fails, and those of the owner of the pages.
    fn advise<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        advice: KnownAdvice,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let old = area.vma.flags;
        let spec = advice.spec();
        if old.contains(VmFlags::SEALED) && spec.loses_contents && !self.may_discard(area.vma) {
            return Err(Errno::EPERM);
        }
        if !self.applies(advice, &area, (start, end))? {
            return Ok(());
        }
        match spec.effect {
            Effect::Flags {
                sets,
                clears,
                pages: page_advice,
            } => {
                let new = (old - clears) | sets;
                if new == old {
                    return Ok(());
                }
                if let Some(page_advice) = page_advice
                    && area.vma.anon().is_some()
                {
                    self.notify_advice(pages, start, end, page_advice)?;
                }
                self.change_flags(start, end, new)
            }
            Effect::Pages(page_advice) => self.advise_pages(start, end, page_advice, pages),
            // The caller has faulted the pages in.
            Effect::Populate { .. } => Ok(()),
        }
    }

    /// Gives `[start, end)`, which lies in one VMA, the flags `new`.
    ///
    /// # Errors
    /// `EAGAIN` at the limit on the number of VMAs, `ENOMEM` when an allocation fails.
    fn change_flags(&mut self, start: u64, end: u64, new: VmFlags) -> Result<(), Errno> {
        self.alter(start, end, |vma| vma.flags = new)
            .map_err(|error| match error {
                // Only the limit becomes EAGAIN; a failed allocation stays ENOMEM.
                Errno::ENOMEM if self.at_map_limit() => Errno::EAGAIN,
                error => error,
            })
    }

    /// Returns `true` if advice that may lose contents is allowed on this sealed VMA: the program could overwrite the pages anyway, or they
    /// are not its own.
    fn may_discard(&self, vma: &Vma) -> bool {
        let own = vma.is_anonymous()
            && (vma.file().is_none() || self.config.kernel.has(Rule::SealedZeroIsKept));
        vma.flags.contains(VmFlags::WRITE) || !own
    }

    /// Returns `true` if the advice has an effect on `[start, end)` of `area`, and `false` if it is accepted without one.
    ///
    /// # Errors
    /// `EINVAL` if the VMA does not allow it, and `EACCES` for `MADV_REMOVE` of a mapping that is not shared and writable.
    fn applies(
        &self,
        advice: KnownAdvice,
        area: &Area<'_>,
        (start, end): (u64, u64),
    ) -> Result<bool, Errno> {
        let vma = area.vma;
        let flags = vma.flags;
        let has = |any: VmFlags| flags.intersects(any);
        let kept = VmFlags::LOCKED | VmFlags::PFNMAP;
        let possible = match advice {
            KnownAdvice::Normal
            | KnownAdvice::Random
            | KnownAdvice::Sequential
            | KnownAdvice::WillNeed
            | KnownAdvice::DontFork
            | KnownAdvice::DontDump
            | KnownAdvice::Unmergeable
            | KnownAdvice::HugePage
            | KnownAdvice::NoHugePage
            | KnownAdvice::PopulateRead
            | KnownAdvice::PopulateWrite => true,
            KnownAdvice::Mergeable => return Ok(may_be_merged_by_content(vma)),
            KnownAdvice::DoFork => !has(VmFlags::IO),
            KnownAdvice::WipeOnFork => {
                matches!(vma.backing, Backing::Anonymous | Backing::Special(_))
                    && !has(VmFlags::SHARED)
            }
            KnownAdvice::KeepOnFork => !has(VmFlags::DROPPABLE),
            KnownAdvice::DoDump => {
                !has(VmFlags::DROPPABLE) && (!has(VmFlags::SPECIAL) || has(VmFlags::HUGETLB))
            }
            KnownAdvice::DontNeed => !has(kept),
            KnownAdvice::DontNeedLocked => !has(VmFlags::PFNMAP),
            KnownAdvice::Free => !has(kept) && vma.is_anonymous(),
            KnownAdvice::Cold | KnownAdvice::PageOut => !has(kept | VmFlags::HUGETLB),
            KnownAdvice::Remove => {
                let has_object = !vma.is_special() && !matches!(vma.backing, Backing::Anonymous);
                if has(VmFlags::LOCKED) || !has_object {
                    return Err(Errno::EINVAL);
                }
                if !flags.contains(VmFlags::SHARED | VmFlags::MAYWRITE) {
                    return Err(Errno::EACCES);
                }
                true
            }
            KnownAdvice::GuardInstall => self.may_be_guarded(vma) && !has(VmFlags::LOCKED),
            KnownAdvice::GuardRemove => self.may_be_guarded(vma),
            KnownAdvice::Collapse => {
                // Both ends within one huge page are refused, though not if one of them is its edge.
                let first = start.checked_next_multiple_of(PMD_SIZE);
                let last = end & !(PMD_SIZE - 1);
                may_hold_huge_page(area.start, area.end, vma)
                    && first.is_some_and(|first| first <= last)
            }
        };
        if possible {
            Ok(true)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// Returns `true` if the kernel has guard markers for such a VMA.
    fn may_be_guarded(&self, vma: &Vma) -> bool {
        !vma.flags.intersects(VmFlags::SPECIAL | VmFlags::HUGETLB)
            && (vma.is_anonymous() || self.config.kernel.has(Rule::FileGuardMarkers))
    }

    /// Applies advice to the pages of `[start, end)`, which lies in one VMA: to what the engine itself knows of them, then by notifying their owner.
    ///
    /// # Errors
    /// `EINVAL` for a range that begins within a huge page of the pool, `ENOMEM` when an allocation fails, and those of the owner.
    fn advise_pages<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        advice: PageAdvice,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let (flags, anonymous) = (area.vma.flags, area.vma.is_anonymous());
        let size = match flags.contains(VmFlags::HUGETLB) {
            true => size_of(area.vma),
            false => None,
        };
        let mut end = end;
        match advice {
            PageAdvice::DontNeed => {
                if let Some(size) = size {
                    end = self.discard_huge(start, end, size)?;
                }
                self.clear_poison(start, end)?;
            }
            PageAdvice::Free => self.clear_poison(start, end)?,
            PageAdvice::Remove => {
                if let Some(size) = size {
                    self.punch_huge(start, end, size);
                }
            }
            PageAdvice::GuardInstall => {
                self.areas.before_change(start, start + 1)?;
                self.guards_mut()?.install(start, end)?;
                self.mark_guarded(start, anonymous);
            }
            PageAdvice::GuardRemove => {
                if self.guards.first_in(start, end).is_some() {
                    self.guards_mut()?.remove_guards(start, end)?;
                }
            }
            PageAdvice::WillNeed
            | PageAdvice::Cold
            | PageAdvice::PageOut
            | PageAdvice::Collapse
            | PageAdvice::Unmerge => {}
        }
        if start == end {
            return Ok(());
        }
        self.notify_advice(pages, start, end, advice)?;
        if advice == PageAdvice::Collapse && flags.contains(VmFlags::SHARED) {
            // A huge page of the object replaces the page table that held the poison. `applies` has checked that the ends are in order.
            self.clear_poison(start.next_multiple_of(PMD_SIZE), end & !(PMD_SIZE - 1))?;
        }
        Ok(())
    }

    /// Records that the VMA at `start` has guard markers.
    fn mark_guarded(&mut self, start: u64, anonymous: bool) {
        if let Some(area) = self.areas.at(start) {
            area.vma.guarded.set();
        }
        if anonymous {
            // Markers must survive fork, which copies only the page tables of VMAs with an anon_vma.
            self.touch(start);
        }
    }

    /// Faults in the pages of `[start, end)`.
    ///
    /// # Errors
    /// `ENOMEM` at a hole, `EINVAL` at a VMA without that access, and those of [`fault_in`](Self::fault_in). Pages below have been faulted in.
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

/// Returns `true` if a huge page fits into the VMA `[start, end)` and may be mapped there. The engine does not know whether one is available.
fn may_hold_huge_page(start: u64, end: u64, vma: &Vma) -> bool {
    let never = VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::NOHUGEPAGE;
    let aligned = match &vma.backing {
        // Nothing was ever written, so there is nothing to collapse.
        _ if vma.is_anonymous() => vma.anon().is_some(),
        Backing::SharedAnonymous(_) | Backing::Shm { .. } => {
            vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::File(file) => {
            file.kind == FileKind::Shmem && vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::Anonymous | Backing::Special(_) => false,
    };
    // The kernel looks for the last huge page in the VMA. For a VMA that ends in the lowest 2 MiB, the subtraction wraps around and the kernel
    // finds a huge page all the same.
    let last = end.wrapping_sub(PMD_SIZE) & !(PMD_SIZE - 1);
    let fits = last >= start && last.wrapping_add(PMD_SIZE) <= end;
    fits && aligned && !vma.flags.intersects(never)
}
