//! Memory of the host: one anonymous mapping, which the host fills on first touch.

use core::ptr::NonNull;

use crate::arena::{Arena, Bytes};
use crate::entry::PAGE_SIZE;
use crate::error::Error;

/// The length from which the host is asked for huge pages. Below it, clearing them takes longer
/// than they save.
const HUGE: usize = 256 << 20;

/// One private anonymous mapping.
#[derive(Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns its mapping.
unsafe impl Send for HostMemory {}
// SAFETY: the type itself never accesses the memory.
unsafe impl Sync for HostMemory {}

// SAFETY: the mapping has this length and lives as long as the value; the host aligns mappings to
// its pages.
unsafe impl Bytes for HostMemory {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn count(&self) -> usize {
        self.len
    }
}

impl Arena<HostMemory> {
    /// Creates an arena of `frames` frames in an anonymous mapping of the host. The host does not
    /// reserve memory for it (`MAP_NORESERVE`): a program that uses more than the host has meets
    /// the host's overcommit policy.
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
            // Tables lie together and so do frames, so that huge pages waste little and improve the
            // host's TLB reach. A host without huge pages refuses, which is harmless.
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
