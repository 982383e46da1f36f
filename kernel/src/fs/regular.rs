//! Regular files: pages of samara-mm's file cache, and a length.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_mm::process::{Inode, PAGE_BYTES, PageSource};
use samara_mm::{Errno, Object};
use spin::Mutex;

use crate::memory::{free_frames, machine, managed_frames};

pub struct Regular {
    object: Object,
    size: Arc<AtomicU64>,
    /// Held while the length changes.
    changing: Mutex<()>,
}

/// Content that is nowhere but in its pages.
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

/// Files do not grow into the last of so many parts of memory: programs need it.
const RESERVED_SHARE: u64 = 8;

/// # Errors
/// `ENOSPC`: files have taken what they may.
pub fn room() -> Result<(), Errno> {
    if free_frames() < managed_frames() / RESERVED_SHARE { Err(Errno::ENOSPC) } else { Ok(()) }
}

/// The largest file.
const MOST: u64 = i64::MAX as u64;

impl Regular {
    /// # Errors
    /// `ENOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let size = Arc::new(AtomicU64::new(0));
        let object = Inode::object(Content(size.clone()))?;
        Ok(Regular { object, size, changing: Mutex::new(()) })
    }

    /// What areas map.
    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    /// # Errors
    /// `ENOMEM`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        machine().read_file(&self.object, offset, into)
    }

    /// Writes at `offset`, or at the end if it is `None`; the file becomes longer if need be. Returns where it wrote, and how many bytes.
    ///
    /// # Errors
    /// `ENOMEM`, `EFBIG`; `ENOSPC` where files have taken what they may.
    pub fn write(&self, offset: Option<u64>, from: &[u8]) -> Result<(u64, usize), Errno> {
        let _alone = self.changing.lock();
        let before = self.size();
        let offset = offset.unwrap_or(before);
        let end =
            offset.checked_add(from.len() as u64).filter(|&end| end <= MOST).ok_or(Errno::EFBIG)?;
        if end > before {
            room()?;
            self.size.store(end, Ordering::SeqCst);
        }
        let result = machine().write_file(&self.object, offset, from);
        let done = *result.as_ref().unwrap_or(&0);
        if end > before && done < from.len() {
            // What was not written is not there.
            self.size.store((offset + done as u64).max(before), Ordering::SeqCst);
        }
        result.map(|done| (offset, done))
    }

    /// # Errors
    /// `ENOMEM`, `EINVAL`.
    pub fn truncate(&self, size: u64) -> Result<(), Errno> {
        if size > MOST {
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

    /// Makes a range zero. Whole pages of it are given up.
    ///
    /// # Errors
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
