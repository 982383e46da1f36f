//! Growth of VMAs that grow downwards.

use crate::errno::Errno;
use crate::flags::{PAGE_MASK, VmFlags};
use crate::pages::{NoPages, Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::in_call::InCall;
use crate::vma::vma_box::VmaBox;

impl AddressSpace {
    /// Grows the VMA above `address` down to it, as a fault there does.
    ///
    /// # Errors
    /// `EFAULT` if the VMA above does not grow downwards; `ENOMEM` if a limit, the guard gap or
    /// another VMA forbids it.
    pub fn grow_stack(&mut self, address: u64) -> Result<(), Errno> {
        self.grow_stack_with(address, &mut NoPages)
    }

    /// As [`grow_stack`](Self::grow_stack), with an owner of the pages, which is notified of what
    /// is mapped.
    ///
    /// # Errors
    /// As [`grow_stack`](Self::grow_stack), and those of the owner.
    pub fn grow_stack_with<P: Pages + ?Sized>(
        &mut self,
        address: u64,
        pages: &mut P,
    ) -> Result<(), Errno> {
        // The call ends after a refusal is undone, so that no fault can hold what is undone.
        let call = InCall(self);
        if pages.refuses() {
            let grow =
                |space: &mut Self, pages: &mut P| space.grow_down(address, pages).map(|()| 0);
            call.0.refusable(pages, grow).map(|_| ())
        } else {
            call.0.grow_down(address, pages)
        }
    }

    fn grow_down<P: Pages + ?Sized>(&mut self, address: u64, pages: &mut P) -> Result<(), Errno> {
        let start = address & PAGE_MASK;
        let area = self.areas.find(start).ok_or(Errno::EFAULT)?;
        if area.start <= start {
            return Ok(());
        }
        if !area.vma.flags.contains(VmFlags::GROWSDOWN) {
            return Err(Errno::EFAULT);
        }
        if start < self.config.mmap_min_addr {
            return Err(Errno::EPERM);
        }
        // The guard gap below must stay free, except above a VMA without access or another stack.
        if let Some(below) = self.areas.before(start)
            && !below.vma.flags.contains(VmFlags::GROWSDOWN)
            && below.vma.flags.intersects(VmFlags::ACCESS)
            && start - below.end < self.config.stack_guard_gap
        {
            return Err(Errno::ENOMEM);
        }
        let (old, end, flags) = (area.start, area.end, area.vma.flags);
        let grown = old - start;
        // The VMA has an anon_vma from now on, even if a limit keeps it from growing.
        self.areas.before_change(old, old + 1)?;
        self.touch(old);
        if !self.may_expand(flags, grown >> 12)
            || end - start > self.limits.stack
            || !self.may_lock_new(flags, grown)
            // The commit limit applies even if the VMA is not charged.
            || !self.may_commit(grown >> 12)
        {
            return Err(Errno::ENOMEM);
        }
        self.prepare(pages, PrepareOp::Map { start, end: old })?;
        let vma = match self.areas.at(old) {
            Some(area) => VmaBox::try_copy(area.vma)?,
            None => return Err(Errno::EFAULT),
        };
        let mut span = Span::new(start, end);
        self.areas.overlap(&mut span);
        self.areas.insert(&span, vma)?;
        self.notify_map(pages, start, old)
    }
}
