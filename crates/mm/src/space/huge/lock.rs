//! A lock for a few numbers: whoever waits for it spins.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time looks at and changes, for a few steps that neither wait nor call anybody.
pub(super) struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, of which there is one at a time, on whichever thread it is.
unsafe impl<T: Send> Send for Spin<T> {}
// SAFETY: as above: views of the lock give out the value to one thread at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// The lock is held as long as this lives.
pub(super) struct Guard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub(super) const fn new(value: T) -> Self {
        Spin {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        // Acquire: pairs with the release of whoever held it last, so that what that one has changed is seen.
        while self.taken.swap(true, Ordering::Acquire) {
            crate::atomic::relax();
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, until it is dropped.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of whoever takes it next.
        self.0.taken.store(false, Ordering::Release);
    }
}
