//! The request of an `mremap`, and the checks of its arguments, of the source and of the limits.

use super::SPARE_AREAS;
use crate::abi;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::vma::Area;

/// A validated request, lengths in whole pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) old: u64,
    pub(super) old_len: u64,
    pub(super) new_len: u64,
    pub(super) flags: u64,
    pub(super) new: u64,
}

impl Request {
    pub(super) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Returns the hint for a move that is not fixed.
    pub(super) fn new_hint(&self) -> u64 {
        if self.has(abi::MREMAP_DONTUNMAP) {
            self.new
        } else {
            0
        }
    }
}

impl AddressSpace {
    pub(super) fn mremap_request(
        &self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
    ) -> Result<Request, Errno> {
        let request = Request {
            old,
            old_len: page_align(old_len),
            new_len: page_align(new_len),
            flags,
            new,
        };
        let task_size = self.config.task_size;
        let checks_first = self.config.kernel.has(Rule::MremapChecksFirst);
        if flags & !(abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP) != 0
            || !old.is_multiple_of(PAGE_SIZE)
            || request.new_len == 0
            || checks_first && request.new_len > task_size
        {
            return Err(Errno::EINVAL);
        }
        let fixed = request.has(abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP);
        let same_len = if checks_first {
            request.old_len == request.new_len
        } else {
            old_len == new_len
        };
        let odd = fixed && !request.has(abi::MREMAP_MAYMOVE)
            || request.has(abi::MREMAP_DONTUNMAP) && !same_len;
        if odd {
            return Err(Errno::EINVAL);
        }
        if !checks_first {
            let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
            if area.vma.flags.contains(VmFlags::SEALED) {
                return Err(Errno::EPERM);
            }
        }
        if !fixed {
            return Ok(request);
        }
        if request.new_len > task_size
            || request.new > task_size - request.new_len
            || !new.is_multiple_of(PAGE_SIZE)
        {
            return Err(Errno::EINVAL);
        }
        // [`choose_address`](Self::choose_address) returns the same error later, after the
        // destination has been unmapped. There is nothing to unmap below the base.
        if new < self.config.task_base && request.has(abi::MREMAP_FIXED) {
            return Err(Errno::EPERM);
        }
        let overlap = old.wrapping_add(request.old_len) > new && new + request.new_len > old;
        if overlap {
            return Err(Errno::EINVAL);
        }
        if self.areas.count() + 2
            >= (self.config.max_map_count as usize).saturating_sub(SPARE_AREAS)
        {
            return Err(Errno::ENOMEM);
        }
        Ok(request)
    }

    pub(super) fn check_source(&self, request: &Request, area: &Area<'_>) -> Result<(), Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            ..
        } = request;
        let flags = area.vma.flags;
        if flags.contains(VmFlags::SEALED) {
            return Err(Errno::EPERM);
        }
        if old_len == 0 && !flags.intersects(VmFlags::SHARED | VmFlags::MAYSHARE) {
            return Err(Errno::EINVAL);
        }
        if request.has(abi::MREMAP_DONTUNMAP)
            && flags.intersects(VmFlags::DONTEXPAND | VmFlags::PFNMAP)
        {
            return Err(Errno::EINVAL);
        }
        if old_len.min(new_len) > area.end - old
            && (old_len < new_len || request.has(abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP))
        {
            return Err(Errno::EFAULT);
        }
        if old_len >= new_len {
            return Ok(());
        }
        if area
            .vma
            .page_offset(old)
            .checked_add(new_len >> 12)
            .is_none()
        {
            return Err(Errno::EINVAL);
        }
        if flags.intersects(VmFlags::DONTEXPAND | VmFlags::PFNMAP) {
            return Err(Errno::EFAULT);
        }
        let more = new_len - old_len;
        if !self.may_lock_new(flags, more) {
            return Err(Errno::EAGAIN);
        }
        if !self.may_expand(flags, more >> 12) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Checks the charge that newer kernels take for a move to a fixed address: the difference of
    /// the lengths, even where the VMA becomes shorter.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on commitments.
    pub(super) fn charge_what_is_left_behind(&mut self, request: &Request) -> Result<(), Errno> {
        let left = request.old_len.saturating_sub(request.new_len) >> 12;
        if left == 0 || self.may_commit(left) || !self.config.kernel.has(Rule::ShrinkingIsCharged) {
            return Ok(());
        }
        let area = self.areas.at(request.old).ok_or(Errno::EFAULT)?;
        match area.vma.flags.contains(VmFlags::ACCOUNT) {
            true => Err(self.keep_effects(Errno::ENOMEM)),
            false => Ok(()),
        }
    }

    /// Checks the limits on sizes for a copy that leaves its source in place.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn charge_copy(&mut self, request: &Request) -> Result<(), Errno> {
        let area = self.areas.at(request.old).ok_or(Errno::EFAULT)?;
        if request.has(abi::MREMAP_DONTUNMAP)
            && !self.may_expand(area.vma.flags, request.old_len >> 12)
        {
            return Err(self.keep_effects(Errno::ENOMEM));
        }
        Ok(())
    }
}
