//! `madvise(2)`.

use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags, page_align};
use crate::space::AddressSpace;
use crate::space::vma::{Backing, Vma};

/// `MADV_*` by number.
mod advice {
    pub(super) const NORMAL: i32 = 0;
    pub(super) const RANDOM: i32 = 1;
    pub(super) const SEQUENTIAL: i32 = 2;
    pub(super) const DONTNEED: i32 = 4;
    pub(super) const FREE: i32 = 8;
    pub(super) const REMOVE: i32 = 9;
    pub(super) const DONTFORK: i32 = 10;
    pub(super) const DOFORK: i32 = 11;
    pub(super) const MERGEABLE: i32 = 12;
    pub(super) const UNMERGEABLE: i32 = 13;
    pub(super) const HUGEPAGE: i32 = 14;
    pub(super) const NOHUGEPAGE: i32 = 15;
    pub(super) const DONTDUMP: i32 = 16;
    pub(super) const DODUMP: i32 = 17;
    pub(super) const WIPEONFORK: i32 = 18;
    pub(super) const KEEPONFORK: i32 = 19;
    pub(super) const COLD: i32 = 20;
    pub(super) const PAGEOUT: i32 = 21;
    pub(super) const POPULATE_READ: i32 = 22;
    pub(super) const POPULATE_WRITE: i32 = 23;
    pub(super) const DONTNEED_LOCKED: i32 = 24;
    pub(super) const COLLAPSE: i32 = 25;
    pub(super) const GUARD_INSTALL: i32 = 102;
    pub(super) const GUARD_REMOVE: i32 = 103;
}

impl AddressSpace {
    pub(crate) fn madvise(&mut self, addr: u64, len: u64, advice: i32) -> Result<u64, Errno> {
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
        if advice == advice::POPULATE_READ || advice == advice::POPULATE_WRITE {
            return self.populate_by_advice(addr, end, advice == advice::POPULATE_WRITE);
        }
        let whole = self.for_parts(addr, end, |space, from, to| space.advise(from, to, advice))?;
        if whole { Ok(0) } else { Err(Errno::ENOMEM) }
    }

    fn knows_advice(&self, advice: i32) -> bool {
        match advice {
            advice::NORMAL..=advice::DONTNEED
            | advice::FREE..=advice::DOFORK
            | advice::DONTDUMP..=advice::DONTNEED_LOCKED
            | advice::GUARD_INSTALL
            | advice::GUARD_REMOVE => true,
            advice::MERGEABLE | advice::UNMERGEABLE => self.config.ksm,
            advice::HUGEPAGE | advice::NOHUGEPAGE | advice::COLLAPSE => {
                self.config.transparent_huge_pages
            }
            _ => false,
        }
    }

    /// Advice for `[start, end)` within one area.
    fn advise(&mut self, start: u64, end: u64, advice: i32) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let vma = area.vma;
        let old = vma.flags;
        if old.contains(VmFlags::SEALED) && discards(advice) && !may_discard(vma) {
            return Err(Errno::EPERM);
        }
        let new = match advice {
            advice::NORMAL => old - VmFlags::SEQ_READ - VmFlags::RAND_READ,
            advice::RANDOM => (old - VmFlags::SEQ_READ) | VmFlags::RAND_READ,
            advice::SEQUENTIAL => (old - VmFlags::RAND_READ) | VmFlags::SEQ_READ,
            advice::DONTFORK => old | VmFlags::DONTCOPY,
            advice::DOFORK if old.contains(VmFlags::IO) => return Err(Errno::EINVAL),
            advice::DOFORK => old - VmFlags::DONTCOPY,
            advice::WIPEONFORK
                if !matches!(vma.backing, Backing::Anonymous) || old.contains(VmFlags::SHARED) =>
            {
                return Err(Errno::EINVAL);
            }
            advice::WIPEONFORK => old | VmFlags::WIPEONFORK,
            advice::KEEPONFORK if old.contains(VmFlags::DROPPABLE) => return Err(Errno::EINVAL),
            advice::KEEPONFORK => old - VmFlags::WIPEONFORK,
            advice::DONTDUMP => old | VmFlags::DONTDUMP,
            advice::DODUMP
                if old.intersects(VmFlags::SPECIAL) && !old.contains(VmFlags::HUGETLB)
                    || old.contains(VmFlags::DROPPABLE) =>
            {
                return Err(Errno::EINVAL);
            }
            advice::DODUMP => old - VmFlags::DONTDUMP,
            advice::MERGEABLE if may_be_merged_by_content(vma) => old | VmFlags::MERGEABLE,
            advice::UNMERGEABLE => old - VmFlags::MERGEABLE,
            advice::HUGEPAGE => (old - VmFlags::NOHUGEPAGE) | VmFlags::HUGEPAGE,
            advice::NOHUGEPAGE => (old - VmFlags::HUGEPAGE) | VmFlags::NOHUGEPAGE,
            _ => return self.advise_pages(start, end, advice),
        };
        if new == old {
            return Ok(());
        }
        self.alter(start, end, |vma| vma.flags = new)
    }

    /// Advice about pages, which leaves the areas as they are.
    fn advise_pages(&mut self, start: u64, end: u64, advice: i32) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let vma = area.vma;
        let (start_of, end_of) = (area.start, area.end);
        let flags = vma.flags;
        let pinned = VmFlags::LOCKED | VmFlags::PFNMAP | VmFlags::HUGETLB;
        let possible = match advice {
            advice::DONTNEED => !flags.intersects(VmFlags::LOCKED | VmFlags::PFNMAP),
            advice::FREE => {
                !flags.intersects(VmFlags::LOCKED | VmFlags::PFNMAP) && vma.is_anonymous()
            }
            advice::DONTNEED_LOCKED => !flags.contains(VmFlags::PFNMAP),
            advice::COLD | advice::PAGEOUT => !flags.intersects(pinned),
            advice::REMOVE => {
                if flags.contains(VmFlags::LOCKED) || vma.is_anonymous() && vma.file().is_none() {
                    return Err(Errno::EINVAL);
                }
                if !flags.contains(VmFlags::SHARED | VmFlags::MAYWRITE) {
                    return Err(Errno::EACCES);
                }
                true
            }
            advice::GUARD_INSTALL => {
                let possible =
                    !flags.intersects(VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::LOCKED);
                if possible {
                    area.vma.guarded.set();
                }
                if possible && vma.is_anonymous() {
                    // Markers in the page tables must survive fork, which copies those of areas with an owner.
                    self.touch(start);
                }
                if possible {
                    self.guards.install(start, end)?;
                }
                possible
            }
            advice::COLLAPSE => may_hold_huge_page(start_of, end_of, vma),
            advice::GUARD_REMOVE => {
                let possible = !flags.intersects(VmFlags::SPECIAL | VmFlags::HUGETLB);
                if possible {
                    self.guards.remove(start, end)?;
                }
                possible
            }
            _ => true,
        };
        if possible { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn populate_by_advice(&mut self, start: u64, end: u64, write: bool) -> Result<u64, Errno> {
        let mut next = start;
        while next < end {
            let area = self.areas.at(next).ok_or(Errno::ENOMEM)?;
            let to = area.end.min(end);
            let flags = area.vma.flags;
            let needed = if write { VmFlags::WRITE } else { VmFlags::READ };
            if flags.intersects(VmFlags::IO | VmFlags::PFNMAP) || !flags.contains(needed) {
                return Err(Errno::EINVAL);
            }
            self.fault_in(next, to, write)?;
            next = to;
        }
        Ok(0)
    }
}

/// Advice that may lose what is in the pages.
fn discards(advice: i32) -> bool {
    matches!(
        advice,
        advice::FREE
            | advice::DONTNEED
            | advice::DONTNEED_LOCKED
            | advice::REMOVE
            | advice::DONTFORK
            | advice::WIPEONFORK
            | advice::GUARD_INSTALL
    )
}

/// What a sealed area may lose: what its owner could overwrite anyway, and what is not its own.
fn may_discard(vma: &Vma) -> bool {
    vma.flags.contains(VmFlags::WRITE) || !vma.is_anonymous()
}

/// Whether pages of the area may be merged with equal ones.
fn may_be_merged_by_content(vma: &Vma) -> bool {
    !vma.flags.intersects(
        VmFlags::SHARED
            | VmFlags::MAYSHARE
            | VmFlags::SPECIAL
            | VmFlags::HUGETLB
            | VmFlags::DROPPABLE,
    )
}

/// Whether a huge page fits into the area `[start, end)`, and may be put there. Whether there is one to be had is not known.
fn may_hold_huge_page(start: u64, end: u64, vma: &Vma) -> bool {
    let never = VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::NOHUGEPAGE;
    let aligned = match &vma.backing {
        Backing::Anonymous => true,
        Backing::SharedAnonymous { .. } | Backing::Shm { .. } => {
            vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::File(file) => {
            file.kind == FileKind::Shmem && vma.shift.is_multiple_of(PMD_SIZE >> 12)
        }
        Backing::Special(_) => false,
    };
    let fits = start
        .checked_next_multiple_of(PMD_SIZE)
        .is_some_and(|first| first < end && end - first >= PMD_SIZE);
    fits && aligned && !vma.flags.intersects(never)
}
