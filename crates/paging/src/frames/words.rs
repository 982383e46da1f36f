//! Arrays of words that are all zero at first.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::atomic::AtomicU32;
use crate::error::Error;

/// The first word begins two lines of the cache, as those of [`CachePadded`](crate::shard::CachePadded) do: then frames that are allocated together share lines with no others.
const ALIGN: usize = 128;

/// So many words.
#[derive(Debug)]
pub(super) struct Words {
    first: NonNull<AtomicU32>,
    count: usize,
    /// What the global allocator gave.
    memory: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: an array of atomics that this value owns, or that stays.
unsafe impl Send for Words {}
// SAFETY: they are changed by atomic instructions alone.
unsafe impl Sync for Words {}

impl Words {
    /// Zeroed by the allocator, which gets such pages from the system without touching them. It would touch them if it were asked for the alignment: so a little more
    /// is allocated.
    pub(super) fn new(count: usize) -> Result<Self, Error> {
        let words = Layout::array::<AtomicU32>(count).map_err(|_| Error::NoMemory)?;
        let size = words.size().checked_add(ALIGN).ok_or(Error::NoMemory)?;
        let layout = Layout::from_size_align(size, words.align()).map_err(|_| Error::NoMemory)?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory)?;
        // Less than `ALIGN`, unless this cannot be told.
        let skipped = memory.align_offset(ALIGN);
        let skipped = if skipped < ALIGN { skipped } else { 0 };
        // SAFETY: within what was allocated, in which so many words fit behind.
        let first = unsafe { memory.add(skipped) }.cast::<AtomicU32>();
        if cfg!(samara_loom) {
            for i in 0..count {
                // SAFETY: within the array. The checker's words are no bytes.
                unsafe { first.add(i).write(AtomicU32::new(0)) };
            }
        }
        Ok(Self {
            first,
            count,
            memory: Some((memory, layout)),
        })
    }

    /// Bytes that so many words take of memory that is given, wherever it begins.
    pub(super) const fn size_of(count: usize) -> usize {
        count * size_of::<AtomicU32>() + ALIGN
    }

    /// So many words at the start of memory that stays, and what is left of it.
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
        // SAFETY: the array has so many words.
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
