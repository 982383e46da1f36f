//! Initialisation in place, for a value within another one: see [`fill`](crate::heap::place::fill).

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// A value whose memory exists before the value.
pub(crate) struct InPlace<T>(MaybeUninit<T>);

impl<T> InPlace<T> {
    /// Reserves the memory.
    ///
    /// # Safety
    /// The caller initialises the value through [`place`](Self::place) before any other use, or
    /// never drops this.
    pub(crate) const unsafe fn new() -> Self {
        InPlace(MaybeUninit::uninit())
    }

    /// Returns the memory, to initialise it.
    ///
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
        // SAFETY: the creator has initialised the value.
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
        // SAFETY: as above, and it is not used any more.
        unsafe { self.0.assume_init_drop() };
    }
}
