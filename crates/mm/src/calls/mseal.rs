//! `mseal(2)`.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::space::AddressSpace;

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn do_mseal(&mut self, addr: u64, len: u64, flags: u64) -> Result<u64, Errno> {
        if !self.config.kernel.has(Rule::Mseal) {
            return Err(Errno::ENOSYS);
        }
        if flags != 0 || !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let rounded = page_align(len);
        if len != 0 && rounded == 0 {
            return Err(Errno::EINVAL);
        }
        let end = addr.checked_add(rounded).ok_or(Errno::EINVAL)?;
        if !self.is_mapped(addr, end) {
            return Err(Errno::ENOMEM);
        }
        self.for_parts(addr, end, |space, from, to| {
            space.alter(from, to, |vma| vma.flags |= VmFlags::SEALED)
        })?;
        Ok(0)
    }
}
