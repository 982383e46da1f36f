//! `mincore(2)`: checks that the range is mapped. The engine does not know which pages are present.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::space::AddressSpace;

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn mincore(&mut self, addr: u64, len: u64) -> Result<u64, Errno> {
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let end = addr
            .checked_add(len)
            .filter(|end| *end <= self.config.task_size)
            .ok_or(Errno::ENOMEM)?;
        if self.is_mapped(addr, page_align(end)) {
            Ok(0)
        } else {
            Err(Errno::ENOMEM)
        }
    }
}
