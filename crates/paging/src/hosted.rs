//! Memory of the host: one anonymous mapping, whose pages the host gives when they are first touched.

use core::ptr::NonNull;

use crate::arena::{Arena, Bytes};
use crate::entry::PAGE_SIZE;
use crate::error::Error;

/// From this length on, the host is asked for huge pages: below, clearing them takes longer than they save.
const HUGE: usize = 256 << 20;

/// One anonymous, private mapping.
#[derive(Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping of its own.
unsafe impl Send for HostMemory {}
// SAFETY: this type itself never touches it.
unsafe impl Sync for HostMemory {}

// SAFETY: mapped with this length, unmapped only with the value; the host aligns mappings to its pages.
unsafe impl Bytes for HostMemory {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn count(&self) -> usize {
        self.len
    }
}

impl Arena<HostMemory> {
    /// So many frames in an anonymous mapping of the host's. The host promises no memory for it (`MAP_NORESERVE`): a program that uses more
    /// than there is gets what the host does then.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn hosted(frames: usize) -> Result<Self, Error> {
        let len = frames
            .checked_mul(PAGE_SIZE as usize)
            .ok_or(Error::NoMemory)?;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::NoMemory);
        }
        if len >= HUGE {
            // Tables and frames lie close together each, so that huge pages of the host's waste little, and its processors remember more. A host that
            // has none does without.
            // SAFETY: the mapping made above.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start.cast()).ok_or(Error::NoMemory)?;
        Self::over(HostMemory { start, len })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `hosted` with this length.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
