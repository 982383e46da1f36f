//! Regular files: pages of samara-mm's file cache, and a size.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_mm::process::{Inode, PAGE_BYTES, PageSource};
use samara_mm::{Errno, Object};
use spin::Mutex;

use crate::memory::{free_frames, machine, managed_frames};

pub struct Regular {
    object: Object,
    size: Arc<AtomicU64>,
    /// Held while the size changes.
    changing: Mutex<()>,
}

/// The page source of content that exists only in the cache.
struct Content(Arc<AtomicU64>);

// ANCHOR: source
impl PageSource for Content {
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
        self.0.load(Ordering::SeqCst)
    }

    fn is_memory(&self) -> bool {
        true
    }
}
// ANCHOR_END: source

/// Files stop growing when less than this fraction of memory is free (one part in eight), because
/// programs need it.
const RESERVED: u64 = 8;

/// Checks that files may grow.
///
/// # Errors
///
/// `ENOSPC` if too little memory is free.
pub fn check_space() -> Result<(), Errno> {
    if free_frames() < managed_frames() / RESERVED { Err(Errno::ENOSPC) } else { Ok(()) }
}

/// The largest size of a file.
const MAX: u64 = i64::MAX as u64;

impl Regular {
    /// Creates an empty file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let size = Arc::new(AtomicU64::new(0));
        let object = Inode::object(Content(size.clone()))?;
        Ok(Regular { object, size, changing: Mutex::new(()) })
    }

    /// Returns the object that VMAs map.
    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    /// Reads at an offset. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        machine().read_file(&self.object, offset, into)
    }

    /// Writes at `offset`, or at the end if it is `None`. The file grows if the write ends beyond
    /// its size. Returns the offset and the number of bytes written.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFBIG`; `ENOSPC` if files may not grow.
    pub fn write(&self, offset: Option<u64>, from: &[u8]) -> Result<(u64, usize), Errno> {
        let _alone = self.changing.lock();
        let before = self.size();
        let offset = offset.unwrap_or(before);
        let end =
            offset.checked_add(from.len() as u64).filter(|&end| end <= MAX).ok_or(Errno::EFBIG)?;
        if end > before {
            check_space()?;
            self.size.store(end, Ordering::SeqCst);
        }
        let result = machine().write_file(&self.object, offset, from);
        let done = *result.as_ref().unwrap_or(&0);
        if end > before && done < from.len() {
            // The size does not cover bytes that were not written.
            self.size.store((offset + done as u64).max(before), Ordering::SeqCst);
        }
        result.map(|done| (offset, done))
    }

    /// Sets the size. A shorter file loses its pages beyond the size; a longer one reads as zero
    /// there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub fn truncate(&self, size: u64) -> Result<(), Errno> {
        if size > MAX {
            return Err(Errno::EINVAL);
        }
        let _alone = self.changing.lock();
        let before = self.size.swap(size, Ordering::SeqCst);
        if size < before {
            machine().truncate(&self.object, size)
        } else {
            machine().extend(&self.object, before)
        }
    }

    /// Zeroes a range, and frees the whole pages in it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn punch(&self, start: u64, end: u64) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let page = PAGE_BYTES as u64;
        let end = end.min(self.size().next_multiple_of(page));
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        for edge in [start..first.min(end), last.max(start)..end] {
            if !edge.is_empty() {
                let zeroes = [0; PAGE_BYTES];
                machine().write_file(
                    &self.object,
                    edge.start,
                    &zeroes[..(edge.end - edge.start) as usize],
                )?;
            }
        }
        if first < last { machine().punch(&self.object, first, last) } else { Ok(()) }
    }
}
