//! Zero-initialised arrays of words.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::atomic::AtomicU32;
use crate::error::Error;

/// The alignment of the first word: two cache lines, as for
/// [`CachePadded`](crate::shard::CachePadded). Frames that are allocated as one batch then share
/// cache lines with no others.
const ALIGN: usize = 128;

/// An array of words.
#[derive(Debug)]
pub(super) struct Words {
    first: NonNull<AtomicU32>,
    count: usize,
    /// The allocation, if the global allocator gave it.
    memory: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: an array of atomics that this value owns or that is static.
unsafe impl Send for Words {}
// SAFETY: the words are accessed by atomic instructions only.
unsafe impl Sync for Words {}

impl Words {
    /// Allocates zeroed words. The allocator gets such pages from the system without touching them.
    /// It would touch them if asked for the alignment, so that a little more is allocated instead.
    pub(super) fn new(count: usize) -> Result<Self, Error> {
        let words = Layout::array::<AtomicU32>(count).map_err(|_| Error::NoMemory)?;
        let size = words.size().checked_add(ALIGN).ok_or(Error::NoMemory)?;
        let layout = Layout::from_size_align(size, words.align()).map_err(|_| Error::NoMemory)?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory)?;
        // Less than `ALIGN`, unless the offset cannot be computed.
        let skipped = memory.align_offset(ALIGN);
        let skipped = if skipped < ALIGN { skipped } else { 0 };
        // SAFETY: within the allocation, which has room for the words after it.
        let first = unsafe { memory.add(skipped) }.cast::<AtomicU32>();
        if cfg!(samara_loom) {
            for i in 0..count {
                // SAFETY: within the array. The checker's atomics are not plain bytes.
                unsafe { first.add(i).write(AtomicU32::new(0)) };
            }
        }
        Ok(Self {
            first,
            count,
            memory: Some((memory, layout)),
        })
    }

    /// Returns the number of bytes that `count` words take in given memory, at any alignment.
    pub(super) const fn size_of(count: usize) -> usize {
        count * size_of::<AtomicU32>() + ALIGN
    }

    /// Creates the words at the start of static memory, and returns them with the rest of the
    /// memory.
    pub(super) fn within(
        count: usize,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<(Self, &'static mut [MaybeUninit<u8>]), Error> {
        let skipped = memory.as_ptr().align_offset(ALIGN);
        let len = count * size_of::<AtomicU32>();
        let end = skipped.checked_add(len).ok_or(Error::NoMemory)?;
        let (words, rest) = memory.split_at_mut_checked(end).ok_or(Error::NoMemory)?;
        let words = words.get_mut(skipped..).ok_or(Error::NoMemory)?;
        words.fill(MaybeUninit::new(0));
        let first = NonNull::from(words).cast();
        let memory = None;
        let words = Self {
            first,
            count,
            memory,
        };
        Ok((words, rest))
    }
}

impl Deref for Words {
    type Target = [AtomicU32];

    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: the array has `count` words.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.memory {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}
