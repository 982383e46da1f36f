//! `msync(2)`: reports holes and locked pages, and asks the owner of the pages to write back. The
//! map does not change.

use crate::abi::{self, SyncFlags};
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::pages::Pages;
use crate::space::AddressSpace;

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn do_msync<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if flags & !(abi::MS_ASYNC | abi::MS_INVALIDATE | abi::MS_SYNC) != 0
            || !addr.is_multiple_of(PAGE_SIZE)
            || flags & (abi::MS_ASYNC | abi::MS_SYNC) == abi::MS_ASYNC | abi::MS_SYNC
        {
            return Err(Errno::EINVAL);
        }
        let end = addr.checked_add(page_align(len)).ok_or(Errno::ENOMEM)?;
        let mut next = addr;
        let mut whole = true;
        while next < end {
            let area = self.areas.find_in(next, end).ok_or(Errno::ENOMEM)?;
            whole &= area.start <= next;
            if flags & abi::MS_INVALIDATE != 0 && area.vma.flags.contains(VmFlags::LOCKED) {
                return Err(Errno::EBUSY);
            }
            if pages.listens() && area.vma.flags.contains(VmFlags::SHARED) {
                let (from, to) = (area.start.max(next), area.end.min(end));
                pages.sync(from, to, area.vma, SyncFlags::from_bits_truncate(flags))?;
            }
            next = area.end;
        }
        if whole { Ok(0) } else { Err(Errno::ENOMEM) }
    }
}
