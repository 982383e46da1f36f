//! `prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME)`: names for anonymous memory.

use alloc::boxed::Box;
use alloc::string::String;

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::space::AddressSpace;
use crate::vma::Backing;

/// The longest name in bytes, with the terminating zero.
const NAME_MAX: usize = 80;

impl AddressSpace {
    #[inline(never)]
    pub(crate) fn set_vma_name(
        &mut self,
        addr: u64,
        len: u64,
        name: Option<&str>,
    ) -> Result<u64, Errno> {
        if !self.config.anon_vma_names {
            return Err(Errno::EINVAL);
        }
        let valid = |byte: u8| (0x20..0x7f).contains(&byte) && !b"\\`$[]".contains(&byte);
        if name.is_some_and(|name| name.len() >= NAME_MAX || !name.bytes().all(valid)) {
            return Err(Errno::EINVAL);
        }
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let rounded = page_align(len);
        if len != 0 && rounded == 0 {
            return Err(Errno::EINVAL);
        }
        let end = addr.checked_add(rounded).ok_or(Errno::EINVAL)?;
        let whole = self.for_parts(addr, end, |space, from, to| space.name_part(from, to, name))?;
        if whole { Ok(0) } else { Err(Errno::ENOMEM) }
    }

    fn name_part(&mut self, start: u64, end: u64, name: Option<&str>) -> Result<(), Errno> {
        let Some(area) = self.areas.at(start) else {
            return Ok(());
        };
        let prefix = match area.vma.backing {
            Backing::Anonymous => "[anon:",
            Backing::SharedAnonymous(_) => "[anon_shmem:",
            _ => return Err(Errno::EBADF),
        };
        let name = match name {
            Some(name) => Some(printed(prefix, name)?),
            None => None,
        };
        self.alter(start, end, |vma| vma.name = name)
    }
}

fn printed(prefix: &str, name: &str) -> Result<Box<str>, Errno> {
    let mut text = String::new();
    text.try_reserve_exact(prefix.len() + name.len() + 1)
        .map_err(|_| Errno::ENOMEM)?;
    text.push_str(prefix);
    text.push_str(name);
    text.push(']');
    Ok(text.into_boxed_str())
}
