//! A value that is made where it stays, within something that is there before: see [`fill`](crate::heap::place::fill).

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// A value whose place is there before it.
pub(crate) struct InPlace<T>(MaybeUninit<T>);

impl<T> InPlace<T> {
    /// # Safety
    /// The value is put [into its place](Self::place) before anything else is done with this, or this is never dropped.
    pub(crate) const unsafe fn new() -> Self {
        InPlace(MaybeUninit::uninit())
    }

    /// # Safety
    /// There is no value yet.
    pub(crate) unsafe fn place(&mut self) -> &mut MaybeUninit<T> {
        &mut self.0
    }
}

impl<T> Deref for InPlace<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: whoever made this has put a value here.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T> DerefMut for InPlace<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.0.assume_init_mut() }
    }
}

impl<T> Drop for InPlace<T> {
    fn drop(&mut self) {
        // SAFETY: as above; it is not used any more.
        unsafe { self.0.assume_init_drop() };
    }
}
