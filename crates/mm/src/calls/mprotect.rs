//! `mprotect(2)` and `pkey_mprotect(2)`.

use crate::abi;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::merge::Merge;
use crate::space::vma::Area;
use crate::space::vma_box::VmaBox;

impl AddressSpace {
    pub(crate) fn do_mprotect<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        pkey: i32,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let grows = protection & (abi::PROT_GROWSDOWN | abi::PROT_GROWSUP);
        let protection = protection & !(abi::PROT_GROWSDOWN | abi::PROT_GROWSUP);
        if grows == abi::PROT_GROWSDOWN | abi::PROT_GROWSUP || !addr.is_multiple_of(PAGE_SIZE) {
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
        let mut next = addr;
        if grows == 0 {
            // A hole at the start is found below.
        } else if grows == abi::PROT_GROWSDOWN {
            let first = self.areas.find(addr).ok_or(Errno::ENOMEM)?;
            if first.start >= end {
                return Err(Errno::ENOMEM);
            }
            next = first.start;
            if !first.vma.flags.contains(VmFlags::GROWSDOWN) {
                return Err(Errno::EINVAL);
            }
        } else {
            self.areas.at(addr).ok_or(Errno::ENOMEM)?;
            return Err(Errno::EINVAL);
        }
        while next < end {
            next = self.protect(next, end, protection, pkey, pages)?;
        }
        Ok(0)
    }

    /// What `protection` means for the area at `start`: under `READ_IMPLIES_EXEC` what may be read may be executed, if that is allowed there at all.
    fn implied(&self, start: u64, protection: u64) -> u64 {
        let reads = self.config.read_implies_exec && protection & abi::PROT_READ != 0;
        let may_execute = |area: &Area<'_>| area.vma.flags.contains(VmFlags::MAYEXEC);
        match reads && self.areas.at(start).as_ref().is_some_and(may_execute) {
            true => protection | abi::PROT_EXEC,
            false => protection,
        }
    }

    /// Gives the part of `[start, end)` in the area that holds `start` the protection `protection` and the protection key `pkey`, or such a
    /// one as it should have if that is -1. The result is the end of the part.
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
            // Keys cannot be set aside while the area is looked at.
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
        let new = (old - VmFlags::ACCESS) | access;
        let mut new = new.with_pkey(key);
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
        if new == old {
            return Ok(end);
        }
        let pages = (end - start) >> 12;
        if new.contains(VmFlags::WRITE) {
            if !self.may_expand(new, pages) && self.may_expand(old, pages) {
                return Err(Errno::ENOMEM);
            }
            if !old.contains(VmFlags::WRITE)
                && !old.contains(VmFlags::ACCOUNT)
                && new.is_accountable()
            {
                if !self.may_commit(pages) {
                    return Err(Errno::ENOMEM);
                }
                new |= VmFlags::ACCOUNT;
            }
        } else if area.vma.is_anonymous()
            && area.vma.anon().is_none()
            && self.config.kernel.has(Rule::ReadOnlyIsUncharged)
        {
            // Nothing was written, so nothing has to stay committed.
            new -= VmFlags::ACCOUNT;
        }
        if let Some(merge) = Merge::altering(&span, &neighbours, area.vma, new, self.config.kernel)
        {
            self.prepare(owner, PrepareOp::Protect { start, end })?;
            self.merge_into(&span, &merge, new)?;
        } else {
            let mut vma = VmaBox::try_copy(area.vma)?;
            vma.flags = new;
            if !self.is_split_out_refused(&span) {
                self.prepare(owner, PrepareOp::Protect { start, end })?;
            } else if !self.at_map_limit() {
                // It is cut there all the same, and no further.
                self.prepare(owner, PrepareOp::Split { at: start })?;
            }
            self.split_out(&span, vma)?;
        }
        self.notify_protect(owner, start, end)?;
        let locked_private = VmFlags::WRITE | VmFlags::SHARED | VmFlags::LOCKED;
        if old & locked_private == VmFlags::LOCKED && new.contains(VmFlags::WRITE) {
            let _ = self.populate(start, end, owner);
        }
        Ok(end)
    }
}
