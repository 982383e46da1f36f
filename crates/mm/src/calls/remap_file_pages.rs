//! `remap_file_pages(2)`, which Linux performs as a mapping over the old one.

use crate::abi;
use crate::calls::huge::huge_flags;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_MASK, VmFlags};
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::huge::size_of;
use crate::space::vma::Policy;

impl AddressSpace {
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
        // All of it must be mapped alike.
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
        let mut vma = area.vma.try_clone()?;
        vma.shift = pgoff.wrapping_sub(start >> 12);
        vma.anon.set(None);
        vma.guarded = false.into();
        vma.name = None;
        vma.policy = Policy::default();
        vma.uffd = None;
        // Made anew: only what mmap can ask for survives.
        vma.flags &= VmFlags::ACCESS
            | VmFlags::MAY_ALL
            | VmFlags::SHARED
            | VmFlags::MAYSHARE
            | VmFlags::LOCKED;
        let noexec = vma.file().is_some_and(|file| file.noexec);
        if self.config.read_implies_exec && vma.flags.contains(VmFlags::READ) && !noexec {
            vma.flags |= VmFlags::EXEC;
        }
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
        // As for any mapping that may only be executed: the key that forbids reading is given anew.
        if vma.flags & VmFlags::ACCESS == VmFlags::EXEC {
            vma.flags = vma.flags.with_pkey(self.execute_only_key());
        }
        // As a new mapping at this place, it needs the privilege for the lowest pages again.
        self.choose_address(start, len, abi::MAP_FIXED, HugeAlignment::No)?;
        // As with MAP_LOCKED; a mapping that only MCL_FUTURE locks is not asked for this.
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
        // The driver is asked anew, too.
        if let Some(file) = vma.file() {
            let driver = file.driver;
            let whole = match file.kind {
                FileKind::WholeDevice => VmFlags::DONTEXPAND,
                _ => VmFlags::empty(),
            };
            vma.flags = (vma.flags | driver.adds | whole) - driver.removes;
            if huge.is_none() && vma.flags.intersects(VmFlags::SPECIAL) {
                vma.flags -= VmFlags::LOCKED_MASK;
            }
        }
        // As mmap does with MAP_POPULATE, which this call implies.
        let filled = locked || flags & abi::MAP_NONBLOCK == 0;
        self.map_and_fill(start, end, vma, filled, pages)?;
        Ok(0)
    }
}
