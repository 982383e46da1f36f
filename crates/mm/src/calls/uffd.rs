//! `ioctl_userfaultfd(2)`: VMAs whose faults another thread handles.

use core::num::NonZeroU32;

use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Backing, Vma};

/// The bits `UFFDIO_REGISTER_MODE_*`, and the flags that they set.
const MODES: [(u64, VmFlags); 3] = [
    (1, VmFlags::UFFD_MISSING),
    (2, VmFlags::UFFD_WP),
    (4, VmFlags::UFFD_MINOR),
];

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn uffd_register(
        &mut self,
        context: NonZeroU32,
        asynchronous: bool,
        addr: u64,
        len: u64,
        mode: u64,
    ) -> Result<u64, Errno> {
        let known = MODES.iter().fold(0, |bits, (bit, _)| bits | bit);
        if mode == 0 || mode & !known != 0 {
            return Err(Errno::EINVAL);
        }
        let asynchronous = asynchronous && self.config.kernel.has(Rule::AsynchronousWp);
        let end = self.range_end(addr, len)?;
        let chosen = MODES.iter().filter(|(bit, _)| mode & bit != 0);
        let wanted = chosen.fold(VmFlags::empty(), |all, (_, flag)| all | *flag);
        self.check_each(addr, end, |vma| {
            if !can_be_registered(vma, wanted, asynchronous) {
                return Err(Errno::EINVAL);
            }
            if !vma.flags.contains(VmFlags::MAYWRITE) {
                return Err(Errno::EPERM);
            }
            match vma.uffd {
                Some(other) if other != context => Err(Errno::EBUSY),
                _ => Ok(()),
            }
        })?;
        self.for_parts(addr, end, |space, from, to| {
            space.change_part(from, to, |vma| {
                // It is registered for these modes already, and perhaps for more.
                if vma.uffd == Some(context) && vma.flags.contains(wanted) {
                    return;
                }
                vma.flags = (vma.flags - VmFlags::UFFD) | wanted;
                vma.uffd = Some(context);
            })
        })?;
        Ok(0)
    }

    #[inline(never)]
    pub(crate) fn uffd_unregister(
        &mut self,
        context: NonZeroU32,
        asynchronous: bool,
        addr: u64,
        len: u64,
    ) -> Result<u64, Errno> {
        let asynchronous = asynchronous && self.config.kernel.has(Rule::AsynchronousWp);
        let own_only = self.config.kernel.has(Rule::WatchersLetGo);
        let end = self.range_end(addr, len)?;
        self.check_each(addr, end, |vma| {
            let watched = vma.flags & VmFlags::UFFD;
            if !can_be_registered(vma, watched, asynchronous) {
                return Err(Errno::EINVAL);
            }
            match vma.uffd {
                Some(other) if other != context && own_only => Err(Errno::EINVAL),
                _ => Ok(()),
            }
        })?;
        self.for_parts(addr, end, |space, from, to| {
            space.change_part(from, to, unregister)
        })?;
        Ok(0)
    }

    /// Closes a userfaultfd: no descriptor of it is left.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails.
    #[inline(never)]
    pub(crate) fn uffd_close(&mut self, context: NonZeroU32) -> Result<u64, Errno> {
        let mut next = 0;
        while let Some(area) = self.areas.find(next) {
            let (start, end, uffd) = (area.start, area.end, area.vma.uffd);
            if uffd == Some(context) {
                self.alter(start, end, unregister)?;
            }
            next = end;
        }
        Ok(0)
    }

    /// Changes the registration of a part as [`alter`](Self::alter) does. In older kernels, a part
    /// that begins within its VMA merges with nothing.
    fn change_part(
        &mut self,
        start: u64,
        end: u64,
        change: impl FnOnce(&mut Vma),
    ) -> Result<(), Errno> {
        let amid = self.areas.at(start).is_some_and(|area| area.start < start);
        if !amid || self.config.kernel.has(Rule::WatchedPartsJoin) {
            return self.alter(start, end, change);
        }
        let mut span = Span::new(start, end);
        let Some(area) = self.areas.neighbours_of_part(&mut span).first else {
            return Ok(());
        };
        let mut vma = area.vma.try_clone()?;
        change(&mut vma);
        if vma == *area.vma {
            return Ok(());
        }
        self.split_out(&span, VmaBox::try_new(vma)?)
    }

    /// Returns the end of a valid range.
    ///
    /// # Errors
    /// `EINVAL`.
    fn range_end(&self, addr: u64, len: u64) -> Result<u64, Errno> {
        let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
        let odd = !addr.is_multiple_of(PAGE_SIZE) || !len.is_multiple_of(PAGE_SIZE) || len == 0;
        if odd || end > self.config.task_size {
            return Err(Errno::EINVAL);
        }
        Ok(end)
    }

    /// Calls `check` for each VMA in a range.
    ///
    /// # Errors
    /// Those of `check`. `EINVAL` if nothing is mapped, or if the lowest VMA has huge pages and the
    /// range does not begin with one.
    fn check_each(
        &self,
        start: u64,
        end: u64,
        mut check: impl FnMut(&Vma) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut next = start;
        let lowest = self.areas.find_in(start, end);
        let split_alignment = lowest.and_then(|area| area.vma.split_alignment());
        if split_alignment.is_some_and(|split_alignment| !start.is_multiple_of(split_alignment)) {
            return Err(Errno::EINVAL);
        }
        while let Some(area) = self.areas.find_in(next, end) {
            check(area.vma)?;
            next = area.end;
        }
        if next == start {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

pub(super) fn unregister(vma: &mut Vma) {
    vma.flags -= VmFlags::UFFD;
    vma.uffd = None;
}

/// Returns `true` if a userfaultfd can handle faults of the VMA in these modes.
fn can_be_registered(vma: &Vma, wanted: VmFlags, asynchronous: bool) -> bool {
    let in_memory = match &vma.backing {
        Backing::SharedAnonymous(_) => true,
        Backing::File(file) => matches!(file.kind, FileKind::Shmem | FileKind::HugeTlb(_)),
        Backing::Shm { segment, .. } => matches!(segment.file.kind, FileKind::HugeTlb(_)),
        Backing::Anonymous | Backing::Special(_) => false,
    };
    if vma.flags.contains(VmFlags::DROPPABLE) {
        return false;
    }
    if wanted.contains(VmFlags::UFFD_MINOR) && !in_memory {
        return false;
    }
    if wanted == VmFlags::UFFD_WP && asynchronous {
        return true;
    }
    in_memory || vma.is_anonymous()
}
