//! The memory that an arena gives out.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;

use super::Arena;
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::shard;

/// Bytes that an [`Arena`] gives out.
///
/// # Safety
///
/// `start` is valid for reads and writes of [`count`](Self::count) bytes for as long as the value lives, wherever it is moved, and aligned to 4 KiB.
pub unsafe trait Bytes: Send + Sync {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// How many there are.
    fn count(&self) -> usize;

    /// Which processor this runs on, so that its frames are found in its own cache: any number. Each has frames set aside, up to sixteen of them; those
    /// that share a number, modulo 16, wait for one another, and no more is lost by a wrong one.
    ///
    /// Hosted programs number their threads; otherwise the place of the stack decides.
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

// SAFETY: memory of its own.
unsafe impl Send for HeapBytes {}
// SAFETY: this type itself never touches it.
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
    /// So many frames of the global allocator's memory; Miri follows it byte by byte.
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
