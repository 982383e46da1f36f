//! Where the pages of a file come from.

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;

/// Bytes of a page.
pub const PAGE_BYTES: usize = PAGE_SIZE as usize;

/// A file's content, as its owner keeps it. Calls may come from several threads at once, also for one page.
///
/// No lock of the file's pages is held during a call, but for [`size`](Self::size): a source may read other files and fault in other processes. A lock of the
/// address space that faults, or of its area, may be held. So a source must not call into a process that maps the file: that waits for itself.
pub trait PageSource: Send + Sync {
    /// Fills a page, with zeroes beyond the end of the file.
    ///
    /// # Errors
    /// The program gets `SIGBUS`.
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Takes a page that programs have written, at `msync(2)` with `MS_SYNC` and when the pages are given up.
    ///
    /// # Errors
    /// Those of `msync`; the page stays to be written. When the pages are given up, it is lost: [`Process::exit`](crate::process::Process::exit) returns the first of these.
    fn write_page(&self, page: u64, from: &[u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// The bytes of `[start, end)` are zero from now on (`MADV_REMOVE`).
    ///
    /// # Errors
    /// Those of `madvise`.
    fn punch(&self, start: u64, end: u64) -> Result<(), Errno>;

    /// Bytes in the file now. It is asked at each fault, with the lock of the file's pages held, so that it must not call into the machine. An access to a page wholly beyond raises
    /// `SIGBUS`.
    fn size(&self) -> u64;

    /// The pages are all that there is of it (a memfd, a file of tmpfs): they are zeroes at first, and never read nor written.
    fn is_memory(&self) -> bool {
        false
    }
}

/// A shared anonymous object.
pub(crate) struct Zeroes {
    pub(crate) pages: u64,
}

impl PageSource for Zeroes {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(0);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.pages.saturating_mul(PAGE_SIZE)
    }

    fn is_memory(&self) -> bool {
        true
    }
}
