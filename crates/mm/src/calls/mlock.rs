//! `mlock(2)`, `munlock`, `mlockall` and `munlockall`.

use crate::abi;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, page_align};
use crate::heap::Counted;
use crate::pages::Pages;
use crate::space::AddressSpace;

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn do_mlock<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if flags & !abi::MLOCK_ONFAULT != 0 {
            return Err(Errno::EINVAL);
        }
        self.may_lock()?;
        let len = page_align(len.wrapping_add(addr % PAGE_SIZE));
        let start = addr & PAGE_MASK;
        let limit = self.limits.memlock >> 12;
        let mut locked = self.locked_pages().saturating_add(len >> 12);
        if locked > limit && !self.config.capabilities.ipc_lock {
            // Pages that are locked already do not count again.
            locked -= self.locked_pages_in(start, start.saturating_add(len));
            if locked > limit {
                return Err(Errno::ENOMEM);
            }
        }
        let mut given = VmFlags::LOCKED;
        if flags & abi::MLOCK_ONFAULT != 0 {
            given |= VmFlags::LOCKONFAULT;
        }
        self.lock_range(start, len, given)?;
        match self.populate(start, start + len, pages) {
            Err(Errno::EFAULT | Errno::EHWPOISON) => Err(Errno::ENOMEM),
            Err(Errno::ENOMEM) => Err(Errno::EAGAIN),
            Err(other) => Err(other),
            Ok(()) => Ok(0),
        }
    }

    #[inline(never)]
    pub(crate) fn do_munlock(&mut self, addr: u64, len: u64) -> Result<u64, Errno> {
        let len = page_align(len.wrapping_add(addr % PAGE_SIZE));
        self.lock_range(addr & PAGE_MASK, len, VmFlags::empty())?;
        Ok(0)
    }

    #[inline(never)]
    pub(crate) fn do_mlockall<P: Pages + ?Sized>(
        &mut self,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if flags == 0
            || flags & !(abi::MCL_CURRENT | abi::MCL_FUTURE | abi::MCL_ONFAULT) != 0
            || flags == abi::MCL_ONFAULT
        {
            return Err(Errno::EINVAL);
        }
        self.may_lock()?;
        if flags & abi::MCL_CURRENT != 0
            && self.areas.pages().total() > self.limits.memlock >> 12
            && !self.config.capabilities.ipc_lock
        {
            return Err(Errno::ENOMEM);
        }
        let mut given = VmFlags::LOCKED;
        if flags & abi::MCL_ONFAULT != 0 {
            given |= VmFlags::LOCKONFAULT;
        }
        self.future_locked = if flags & abi::MCL_FUTURE != 0 {
            given
        } else {
            VmFlags::empty()
        };
        if flags & abi::MCL_CURRENT != 0 {
            self.lock_all(given);
            let mut next = 0;
            while let Some(area) = self.areas.find(next) {
                let (start, end) = (area.start, area.end);
                // VMAs that cannot be faulted in are skipped.
                let _ = self.populate(start, end, pages);
                next = end;
            }
        }
        Ok(0)
    }

    #[inline(never)]
    pub(crate) fn do_munlockall(&mut self) -> Result<u64, Errno> {
        self.future_locked = VmFlags::empty();
        self.lock_all(VmFlags::empty());
        Ok(0)
    }

    fn lock_all(&mut self, given: VmFlags) {
        // A VMA that cannot be split keeps its flags; the others change.
        let task_size = self.config.task_size;
        let _ = self.for_parts(0, task_size, |space, from, to| {
            let _ = space.lock_part(from, to, given);
            Ok(())
        });
    }

    fn lock_range(&mut self, start: u64, len: u64, given: VmFlags) -> Result<(), Errno> {
        let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
        let mut next = start;
        while next < end {
            let area = self.areas.at(next).ok_or(Errno::ENOMEM)?;
            let to = area.end.min(end);
            self.lock_part(next, to, given)?;
            next = to;
        }
        Ok(())
    }

    fn lock_part(&mut self, start: u64, end: u64, given: VmFlags) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let old = area.vma.flags;
        let never = VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::DROPPABLE;
        let new = (old - VmFlags::LOCKED_MASK) | given;
        let secret = |file: &Counted<File>| file.kind == FileKind::Secret;
        if new == old || old.intersects(never) || area.vma.file().is_some_and(secret) {
            return Ok(());
        }
        self.alter(start, end, |vma| vma.flags = new)
    }

    fn locked_pages_in(&self, start: u64, end: u64) -> u64 {
        let mut pages = 0;
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            if area.vma.flags.contains(VmFlags::LOCKED) {
                pages += (area.end.min(end) - area.start.max(start)) >> 12;
            }
            next = area.end;
        }
        pages
    }
}
