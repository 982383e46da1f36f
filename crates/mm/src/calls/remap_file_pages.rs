//! `remap_file_pages(2)`, which Linux performs as a new mapping in place of the old one.

use crate::abi;
use crate::calls::huge::huge_flags;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::{PAGE_MASK, VmFlags};
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::huge::size_of;
use crate::vma::{Area, Policy, Vma};

impl AddressSpace {
    /// Performs `remap_file_pages`: a new mapping in place of the old one.
    ///
    /// # Errors
    /// Linux's.
    #[inline(never)]
    pub(crate) fn remap_file_pages<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        pgoff: u64,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if protection != 0 {
            return Err(Errno::EINVAL);
        }
        let start = addr & PAGE_MASK;
        let len = len & PAGE_MASK;
        let end = start.wrapping_add(len);
        if end <= start || pgoff.checked_add(len >> 12).is_none() {
            return Err(Errno::EINVAL);
        }
        let area = self.areas.at(start).ok_or(Errno::EINVAL)?;
        if !area.vma.flags.contains(VmFlags::SHARED) {
            return Err(Errno::EINVAL);
        }
        self.check_alike(&area, end)?;
        let mut vma = self.remapped_vma(area.vma, start, pgoff)?;
        let was_locked = vma.flags.contains(VmFlags::LOCKED);
        vma.flags |= self.future_locked;
        let huge = size_of(&vma);
        if let Some(size) = huge {
            let odd = |n: u64| !n.is_multiple_of(size.bytes());
            if odd(start) || odd(len) {
                return Err(Errno::EINVAL);
            }
        }
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        // A mapping with only execute permission gets the key that forbids reading anew.
        if vma.flags & VmFlags::ACCESS == VmFlags::EXEC {
            vma.flags = vma.flags.with_pkey(self.execute_only_key());
        }
        // As a new mapping at this address, it needs the privilege for the lowest pages again.
        self.choose_address(start, len, abi::MAP_FIXED, HugeAlignment::No)?;
        // As for MAP_LOCKED. A mapping that only MCL_FUTURE locks needs no such permission.
        if was_locked {
            self.may_lock()?;
        }
        if !self.may_lock_new(vma.flags, len) {
            return Err(Errno::EAGAIN);
        }
        const LARGEST: u64 = i64::MAX as u64;
        if len > LARGEST || pgoff > (LARGEST - len) >> 12 {
            return Err(Errno::EOVERFLOW);
        }
        let locked = vma.flags.contains(VmFlags::LOCKED);
        if huge.is_some() {
            vma.flags = huge_flags(vma.flags);
        }
        // The driver decides anew, too.
        if let Some(file) = vma.file() {
            vma.flags = driver_flags(file, vma.flags, huge.is_some());
        }
        // This call implies MAP_POPULATE.
        let filled = locked || flags & abi::MAP_NONBLOCK == 0;
        self.map_and_fill(start, end, vma, filled, pages)?;
        Ok(0)
    }

    /// Checks that the VMAs from `area` up to `end` map the same object with the same flags, without holes.
    ///
    /// # Errors
    /// `EINVAL`.
    fn check_alike(&self, area: &Area<'_>, end: u64) -> Result<(), Errno> {
        let mut next = area.end;
        while next < end {
            let more = self.areas.at(next).ok_or(Errno::EINVAL)?;
            if !more.vma.backing.same(&area.vma.backing)
                || more.vma.shown_flags() != area.vma.shown_flags()
            {
                return Err(Errno::EINVAL);
            }
            next = more.end;
        }
        Ok(())
    }

    /// Returns the VMA that replaces `old` at `start`, which maps its object from page `pgoff`. Only what `mmap` can ask for survives.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails.
    fn remapped_vma(&self, old: &Vma, start: u64, pgoff: u64) -> Result<Vma, Errno> {
        let mut vma = old.try_clone()?;
        vma.shift = pgoff.wrapping_sub(start >> 12);
        vma.anon.set(None);
        vma.guarded = false.into();
        vma.name = None;
        vma.policy = Policy::default();
        vma.uffd = None;
        vma.flags &= VmFlags::ACCESS
            | VmFlags::MAY_ALL
            | VmFlags::SHARED
            | VmFlags::MAYSHARE
            | VmFlags::LOCKED;
        let noexec = vma.file().is_some_and(|file| file.noexec);
        if self.config.read_implies_exec && vma.flags.contains(VmFlags::READ) && !noexec {
            vma.flags |= VmFlags::EXEC;
        }
        Ok(vma)
    }
}

/// Returns what the driver of a file makes of the flags of a mapping. Its VMAs cannot be locked; `huge` ones have been treated before.
fn driver_flags(file: &File, flags: VmFlags, huge: bool) -> VmFlags {
    let whole = match file.kind {
        FileKind::WholeDevice => VmFlags::DONTEXPAND,
        _ => VmFlags::empty(),
    };
    let flags = (flags | file.driver.adds | whole) - file.driver.removes;
    match !huge && flags.intersects(VmFlags::SPECIAL) {
        true => flags - VmFlags::LOCKED_MASK,
        false => flags,
    }
}
