//! `mprotect(2)` and `pkey_mprotect(2)`, from the call to the tree.
//!
//! The call goes over the VMAs of the range, upwards, and ends at the first one that refuses the change or at a hole: those below have changed
//! then, as in Linux. For the part in each VMA ([`protect`](AddressSpace::protect)):
//!
//! 1. the protection and the key that it gets,
//! 2. what the VMA allows ([`check_protection`](AddressSpace::check_protection)),
//! 3. the limits ([`charge_protection`](AddressSpace::charge_protection)),
//! 4. the change of the tree, and the notification of the owner of the pages ([`write_protection`](AddressSpace::write_protection)).

use crate::abi;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::merge::Merge;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Area, Vma};

/// The change of the tree for a new protection.
enum Change {
    /// A neighbour with the same attributes takes the range in.
    Merge(Merge),
    /// The range becomes this VMA.
    Split(VmaBox),
}

impl AddressSpace {
    /// Performs `mprotect`. A `pkey` of -1 leaves the choice of the key to the kernel.
    ///
    /// # Errors
    /// Linux's. At the first VMA that refuses; VMAs below have changed.
    pub(crate) fn do_mprotect<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        pkey: i32,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        const GROWS: u64 = abi::PROT_GROWSDOWN | abi::PROT_GROWSUP;
        let grows = protection & GROWS;
        let protection = protection & !GROWS;
        if grows == GROWS || !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(0);
        }
        let end = addr.wrapping_add(page_align(len));
        if end <= addr {
            return Err(Errno::ENOMEM);
        }
        if protection & !(abi::PROT_ACCESS | abi::PROT_SEM) != 0 {
            return Err(Errno::EINVAL);
        }
        if pkey != -1 && !self.is_pkey(pkey) {
            return Err(Errno::EINVAL);
        }
        let mut next = match grows {
            // The first step finds a hole at the start.
            0 => addr,
            _ => self.start_of_growing(addr, end, grows)?,
        };
        while next < end {
            next = self.protect(next, end, protection, pkey, pages)?;
        }
        Ok(0)
    }

    /// Returns where the change begins with `PROT_GROWSDOWN`: where the VMA does, which must grow downwards.
    ///
    /// # Errors
    /// `ENOMEM` if nothing is mapped in the range. `EINVAL` if the VMA does not grow in this direction; none grows upwards.
    #[cold]
    fn start_of_growing(&self, addr: u64, end: u64, grows: u64) -> Result<u64, Errno> {
        if grows != abi::PROT_GROWSDOWN {
            self.areas.at(addr).ok_or(Errno::ENOMEM)?;
            return Err(Errno::EINVAL);
        }
        let first = self.areas.find_in(addr, end).ok_or(Errno::ENOMEM)?;
        if !first.vma.flags.contains(VmFlags::GROWSDOWN) {
            return Err(Errno::EINVAL);
        }
        Ok(first.start)
    }

    /// Returns what `protection` means for the VMA at `start`: under `READ_IMPLIES_EXEC`, readable memory is executable if the VMA may be executed at all.
    fn implied(&self, start: u64, protection: u64) -> u64 {
        let reads = self.config.read_implies_exec && protection & abi::PROT_READ != 0;
        let may_execute = |area: &Area<'_>| area.vma.flags.contains(VmFlags::MAYEXEC);
        match reads && self.areas.at(start).as_ref().is_some_and(may_execute) {
            true => protection | abi::PROT_EXEC,
            false => protection,
        }
    }

    /// Gives the part of `[start, end)` in the VMA that holds `start` a protection and a protection key; -1 stands for the key that the kernel chooses.
    /// Returns the end of the part.
    ///
    /// # Errors
    /// `ENOMEM` at a hole, at a limit, and when an allocation fails; those of [`check_protection`](Self::check_protection) and of the owner of the pages.
    fn protect<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        protection: u64,
        pkey: i32,
        owner: &mut P,
    ) -> Result<u64, Errno> {
        let protection = self.implied(start, protection);
        let access = VmFlags::from_prot(protection);
        let key = match u32::try_from(pkey) {
            Ok(key) => Some(key),
            // The key is chosen first, because it may be allocated, which needs the address space exclusively.
            Err(_) if self.config.pkeys => {
                let area = self.areas.at(start).ok_or(Errno::ENOMEM)?;
                Some(self.key_for(area.vma.flags, protection))
            }
            Err(_) => None,
        };
        let mut span = Span::new(start, end);
        let neighbours = self.areas.neighbours_of_part(&mut span);
        let end = span.end;
        let Some(area) = neighbours.first.filter(|area| area.start <= start) else {
            return Err(Errno::ENOMEM);
        };
        let old = area.vma.flags;
        let key = key.unwrap_or(old.pkey());
        let new = ((old - VmFlags::ACCESS) | access).with_pkey(key);
        self.check_protection(old, new)?;
        if new == old {
            return Ok(end);
        }
        let new = self.charge_protection(area.vma, new, (end - start) >> 12)?;
        let kernel = self.config.kernel;
        let change = match Merge::altering(&span, &neighbours, area.vma, new, kernel) {
            Some(merge) => Change::Merge(merge),
            None => {
                let mut vma = VmaBox::try_copy(area.vma)?;
                vma.flags = new;
                Change::Split(vma)
            }
        };
        self.write_protection(&span, start, change, new, owner)?;
        let locked_private = VmFlags::WRITE | VmFlags::SHARED | VmFlags::LOCKED;
        if old & locked_private == VmFlags::LOCKED && new.contains(VmFlags::WRITE) {
            // Locked private pages become private copies at once. A page that cannot be copied is no error.
            let _ = self.populate(start, end, owner);
        }
        Ok(end)
    }

    /// Checks that a VMA with flags `old` may get the protection of `new`.
    ///
    /// # Errors
    /// `EACCES` if the file or `PR_SET_MDWE` forbids it, `EPERM` if the VMA is sealed.
    #[inline(always)]
    fn check_protection(&self, old: VmFlags, new: VmFlags) -> Result<(), Errno> {
        for (wanted, needed) in [
            (VmFlags::READ, VmFlags::MAYREAD),
            (VmFlags::WRITE, VmFlags::MAYWRITE),
            (VmFlags::EXEC, VmFlags::MAYEXEC),
        ] {
            if new.contains(wanted) && !new.contains(needed) {
                return Err(Errno::EACCES);
            }
        }
        if !self.may_execute(Some(old), new) {
            return Err(Errno::EACCES);
        }
        if old.contains(VmFlags::SEALED) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Checks the limits for `pages` pages of a VMA that get the flags `new`. Returns these flags
    /// with `ACCOUNT` updated: memory that becomes writable is charged, and memory that was never
    /// written and is not writable any more is uncharged.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on data or on commitments.
    #[inline(always)]
    fn charge_protection(&self, vma: &Vma, new: VmFlags, pages: u64) -> Result<VmFlags, Errno> {
        let old = vma.flags;
        if !new.contains(VmFlags::WRITE) {
            let uncharged = vma.is_anonymous()
                && vma.anon().is_none()
                && self.config.kernel.has(Rule::ReadOnlyIsUncharged);
            return Ok(if uncharged {
                new - VmFlags::ACCOUNT
            } else {
                new
            });
        }
        if !self.may_expand(new, pages) && self.may_expand(old, pages) {
            return Err(Errno::ENOMEM);
        }
        if !old.intersects(VmFlags::WRITE | VmFlags::ACCOUNT) && new.is_accountable() {
            if !self.may_commit(pages) {
                return Err(Errno::ENOMEM);
            }
            return Ok(new | VmFlags::ACCOUNT);
        }
        Ok(new)
    }

    /// Changes the tree for the part of `span`, which begins at `start`, and notifies the owner of the pages.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of VMAs or when an allocation fails, `EINVAL` if the VMA may not be split there, and those of the owner. A first
    /// split may stay.
    #[inline(always)]
    fn write_protection<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        start: u64,
        change: Change,
        new: VmFlags,
        owner: &mut P,
    ) -> Result<(), Errno> {
        let end = span.end;
        match change {
            Change::Merge(merge) => {
                self.prepare(owner, PrepareOp::Protect { start, end })?;
                self.merge_into(span, &merge, new)?;
            }
            Change::Split(vma) => {
                if !self.is_split_out_refused(span) {
                    self.prepare(owner, PrepareOp::Protect { start, end })?;
                } else if !self.at_map_limit() {
                    // The VMA is split at the start all the same, and no further.
                    self.prepare(owner, PrepareOp::Split { at: start })?;
                }
                self.split_out(span, vma)?;
            }
        }
        self.notify_protect(owner, start, end)
    }
}
