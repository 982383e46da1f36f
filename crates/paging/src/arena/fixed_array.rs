//! Arrays of fixed length, on the heap or in memory that is given.

use alloc::vec::Vec;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use crate::error::Error;

/// Memory that stays, from which arrays are taken one after the other.
pub(super) type GivenMemory = &'static mut [MaybeUninit<u8>];

/// An array.
pub(super) struct FixedArray<T> {
    first: NonNull<T>,
    len: usize,
    /// What the heap's array was allocated with.
    capacity: Option<usize>,
}

// SAFETY: it owns the values.
unsafe impl<T: Send> Send for FixedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for FixedArray<T> {}

impl<T> FixedArray<T> {
    /// So many values on the heap.
    ///
    /// # Errors
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

    /// Bytes that so many values take of memory that is given, wherever it begins.
    pub(super) const fn size_of(count: usize) -> usize {
        count * size_of::<T>() + align_of::<T>()
    }

    /// So many values at the start of memory that stays, of which the rest is left.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is too small.
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
            // SAFETY: aligned, and within the bytes that have just been taken.
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
        // SAFETY: so many values, which this owns.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for FixedArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: so many values, which this owns.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for FixedArray<T> {
    fn drop(&mut self) {
        if let Some(capacity) = self.capacity {
            // SAFETY: the parts of a vector, which nothing else has. Values in given memory have nothing to drop that would be missed.
            drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), self.len, capacity) });
        }
    }
}
