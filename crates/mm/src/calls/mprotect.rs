//! `mprotect(2)` and `pkey_mprotect(2)`.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align, prot};
use crate::space::AddressSpace;

impl AddressSpace {
    pub(crate) fn mprotect(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        pkey: i32,
    ) -> Result<u64, Errno> {
        let grows = protection & (prot::GROWSDOWN | prot::GROWSUP);
        let mut protection = protection & !(prot::GROWSDOWN | prot::GROWSUP);
        if grows == prot::GROWSDOWN | prot::GROWSUP || !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(0);
        }
        let end = addr.wrapping_add(page_align(len));
        if end <= addr {
            return Err(Errno::ENOMEM);
        }
        if protection & !(prot::ALL | prot::SEM) != 0 {
            return Err(Errno::EINVAL);
        }
        if pkey != -1 && !self.is_pkey(pkey) {
            return Err(Errno::EINVAL);
        }
        if self.config.read_implies_exec && protection & prot::READ != 0 {
            protection |= prot::EXEC;
        }
        let first = self.areas.find(addr).ok_or(Errno::ENOMEM)?;
        let mut next = addr;
        if grows == prot::GROWSDOWN {
            if first.start >= end {
                return Err(Errno::ENOMEM);
            }
            next = first.start;
            if !first.vma.flags.contains(VmFlags::GROWSDOWN) {
                return Err(Errno::EINVAL);
            }
        } else {
            if first.start > addr {
                return Err(Errno::ENOMEM);
            }
            if grows == prot::GROWSUP {
                return Err(Errno::EINVAL);
            }
        }
        while next < end {
            let area = self.areas.at(next).ok_or(Errno::ENOMEM)?;
            let (stop, old) = (area.end.min(end), area.vma.flags);
            let access = VmFlags::from_prot(protection);
            let key = u32::try_from(pkey).unwrap_or_else(|_| self.key_for(old, access));
            self.protect(next, stop, access, key)?;
            next = stop;
        }
        Ok(0)
    }

    /// Gives `[start, end)`, within one area, the protection `access` and the protection key `key`.
    fn protect(&mut self, start: u64, end: u64, access: VmFlags, key: u32) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Err(Errno::ENOMEM);
        };
        let old = area.vma.flags;
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
        if old.contains(VmFlags::SEALED) {
            return Err(Errno::EPERM);
        }
        if new == old {
            return Ok(());
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
        } else if area.vma.is_anonymous() && area.vma.anon().is_none() {
            // Nothing was written, so nothing has to stay committed.
            new -= VmFlags::ACCOUNT;
        }
        let mut vma = area.vma.try_clone()?;
        vma.flags = new;
        self.change(start, end, vma)?;
        let locked_private = VmFlags::WRITE | VmFlags::SHARED | VmFlags::LOCKED;
        if old & locked_private == VmFlags::LOCKED && new.contains(VmFlags::WRITE) {
            let _ = self.populate(start, end);
        }
        Ok(())
    }
}
