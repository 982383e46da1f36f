//! `shmat(2)` and `shmdt(2)`.

use crate::abi;
use crate::call::ShmSegment;
use crate::calls::huge::huge_flags;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::heap::Counted;
use crate::huge_pool::Size;
use crate::object::new_object;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::vma::{Backing, Vma};

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn do_shmat<P: Pages + ?Sized>(
        &mut self,
        segment: Option<&Counted<ShmSegment>>,
        addr: u64,
        flags: u64,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let segment = segment.ok_or(Errno::EINVAL)?;
        let (addr, fixed) = attach_address(addr, flags)?;
        let size = match segment.file.kind {
            FileKind::HugeTlb(bytes) => Some(Size::of(bytes).ok_or(Errno::EINVAL)?),
            _ => None,
        };
        let len = segment.len().ok_or(Errno::EINVAL)?;
        if addr != 0 && flags & abi::SHM_REMAP == 0 {
            let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
            if self.areas.find_in(addr, end).is_some() {
                return Err(Errno::EINVAL);
            }
        }
        let mut area_flags = self.attach_flags(flags);
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        if size.is_some() && pages.listens() {
            return Err(Errno::ENOSYS);
        }
        let place = match size {
            Some(size) => self.hugetlb_address(addr, len, fixed, fixed != 0, size)?,
            None if self.config.shmem_huge => {
                self.choose_address(addr, len, fixed, HugeAlignment::File(0))?
            }
            None => self.choose_address(addr, len, fixed, HugeAlignment::No)?,
        };
        let start = if fixed != 0 {
            place
        } else {
            forced.unwrap_or(place)
        };
        if !self.may_lock_new(area_flags, len) {
            return Err(Errno::EAGAIN);
        }
        let filled = area_flags.contains(VmFlags::LOCKED);
        if size.is_some() {
            area_flags = huge_flags(area_flags);
        }
        let backing = Backing::Shm {
            segment: segment.clone(),
            attachment: new_object(),
        };
        let vma = Vma::new(area_flags, 0u64.wrapping_sub(start >> 12), backing);
        self.map_and_fill(start, start + len, vma, filled, pages)?;
        Ok(start)
    }

    /// Returns the flags of the VMA of a segment that is attached with these `SHM_*` flags.
    #[inline]
    fn attach_flags(&self, flags: u64) -> VmFlags {
        let mut area_flags = VmFlags::READ | VmFlags::MAY_ALL | VmFlags::MAYSHARE;
        if flags & abi::SHM_RDONLY == 0 {
            area_flags |= VmFlags::WRITE | VmFlags::SHARED;
        } else {
            area_flags -= VmFlags::MAYWRITE;
        }
        if flags & abi::SHM_EXEC != 0 || self.config.read_implies_exec {
            area_flags |= VmFlags::EXEC;
        }
        area_flags | self.future_locked
    }

    #[inline(never)]
    pub(crate) fn do_shmdt<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        // Parts of an attachment made at `addr` have a shift that follows from that address. The
        // first such part identifies the attachment; the others lie within its size.
        let shift = 0u64.wrapping_sub(addr >> 12);
        let mut wanted = None;
        let mut next = addr;
        while let Some(area) = self.areas.find(next) {
            let (start, end) = (area.start, area.end);
            next = end;
            let Backing::Shm {
                segment,
                attachment,
            } = &area.vma.backing
            else {
                continue;
            };
            let limit = addr.saturating_add(segment.len().unwrap_or(u64::MAX));
            match wanted {
                Some((_, limit)) if end > limit => break,
                Some((attachment_wanted, _)) if attachment_wanted != *attachment => continue,
                _ if area.vma.shift != shift => continue,
                _ => wanted = Some((*attachment, limit)),
            }
            match self.unmap(start, end, pages) {
                // A sealed part stays, without an error.
                Ok(_) | Err(Errno::EPERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        let found = wanted.is_some();
        if found { Ok(0) } else { Err(Errno::EINVAL) }
    }
}

/// Returns the address at which a segment is attached, and `MAP_FIXED` if the program fixes it.
///
/// # Errors
/// `EINVAL` for an address that is not aligned, unless `SHM_RND` rounds it down, and for `SHM_REMAP`
/// without an address.
#[inline]
fn attach_address(mut addr: u64, flags: u64) -> Result<(u64, u64), Errno> {
    if addr == 0 {
        return match flags & abi::SHM_REMAP {
            0 => Ok((0, 0)),
            _ => Err(Errno::EINVAL),
        };
    }
    if !addr.is_multiple_of(PAGE_SIZE) {
        if flags & abi::SHM_RND == 0 {
            return Err(Errno::EINVAL);
        }
        addr -= addr % PAGE_SIZE;
        if addr == 0 && flags & abi::SHM_REMAP != 0 {
            return Err(Errno::EINVAL);
        }
    }
    Ok((addr, abi::MAP_FIXED))
}
