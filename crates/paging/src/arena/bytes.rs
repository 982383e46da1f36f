//! The memory of an arena.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;

use super::Arena;
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::shard;

/// Bytes that an [`Arena`] gives out as frames.
///
/// # Safety
///
/// `start` is aligned to 4 KiB and valid for reads and writes of [`count`](Self::count) bytes for
/// as long as the value lives, even if the value is moved.
pub unsafe trait Bytes: Send + Sync {
    /// Returns the first byte.
    fn start(&self) -> NonNull<u8>;
    /// Returns the number of bytes.
    fn count(&self) -> usize;

    /// Returns the number of the current processor, which may be any number. It selects one of
    /// sixteen frame caches, modulo 16. Threads with the same number wait for one another; a wrong
    /// number has no other cost.
    ///
    /// By default, a hosted program numbers its threads, and other programs derive the number from
    /// the address of the stack.
    #[inline]
    fn processor(&self) -> usize {
        shard::current()
    }
}

/// Memory of the global allocator.
#[derive(Debug)]
pub struct HeapBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns its memory.
unsafe impl Send for HeapBytes {}
// SAFETY: the type itself never accesses the memory.
unsafe impl Sync for HeapBytes {}

// SAFETY: allocated with this length and alignment, and freed only with the value.
unsafe impl Bytes for HeapBytes {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn count(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Arena<HeapBytes> {
    /// Creates an arena of `frames` frames in memory of the global allocator, which Miri checks
    /// byte by byte.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn on_heap(frames: usize) -> Result<Self, Error> {
        let layout =
            Layout::from_size_align(frames.max(1) * PAGE_SIZE as usize, PAGE_SIZE as usize)
                .map_err(|_| Error::NoMemory)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory)?;
        Self::over(HeapBytes { start, layout })
    }
}
