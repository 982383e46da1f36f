//! Arrays of fixed length, on the heap or in given memory.

use alloc::vec::Vec;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use crate::error::Error;

/// Static memory from which arrays are cut one after the other.
pub(super) type GivenMemory = &'static mut [MaybeUninit<u8>];

/// An array of fixed length.
pub(super) struct FixedArray<T> {
    first: NonNull<T>,
    len: usize,
    /// The capacity of the heap allocation.
    capacity: Option<usize>,
}

// SAFETY: the array owns its values.
unsafe impl<T: Send> Send for FixedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for FixedArray<T> {}

impl<T> FixedArray<T> {
    /// Creates `count` values on the heap.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(super) fn on_heap(count: usize, mut make: impl FnMut(usize) -> T) -> Result<Self, Error> {
        let mut values = Vec::new();
        values
            .try_reserve_exact(count)
            .map_err(|_| Error::NoMemory)?;
        values.extend((0..count).map(&mut make));
        let mut values = ManuallyDrop::new(values);
        Ok(Self {
            // SAFETY: a vector's pointer is not null.
            first: unsafe { NonNull::new_unchecked(values.as_mut_ptr()) },
            len: values.len(),
            capacity: Some(values.capacity()),
        })
    }

    /// Returns the number of bytes that `count` values take in given memory, at any alignment.
    pub(super) const fn size_of(count: usize) -> usize {
        count * size_of::<T>() + align_of::<T>()
    }

    /// Creates `count` values at the start of static memory, and leaves the rest in `memory`.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if the memory is too small.
    pub(super) fn within(
        memory: &mut GivenMemory,
        count: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<Self, Error> {
        let all = core::mem::take(memory);
        let skipped = all.as_ptr().align_offset(align_of::<T>());
        let len = count.checked_mul(size_of::<T>()).ok_or(Error::NoMemory)?;
        let end = skipped.checked_add(len).ok_or(Error::NoMemory)?;
        let (values, rest) = all.split_at_mut_checked(end).ok_or(Error::NoMemory)?;
        *memory = rest;
        let values = values.get_mut(skipped..).ok_or(Error::NoMemory)?;
        let first = NonNull::from(values).cast::<T>();
        for i in 0..count {
            // SAFETY: aligned, and within the bytes that were just cut off.
            unsafe { first.add(i).write(make(i)) };
        }
        Ok(Self {
            first,
            len: count,
            capacity: None,
        })
    }
}

impl<T> Deref for FixedArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the array owns `len` values.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for FixedArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the array owns `len` values.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for FixedArray<T> {
    fn drop(&mut self) {
        if let Some(capacity) = self.capacity {
            // SAFETY: the parts of a vector, which nothing else owns. Values in given memory need
            // no drop.
            drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), self.len, capacity) });
        }
    }
}
