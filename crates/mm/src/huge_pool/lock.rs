//! A spin lock for a few numbers.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time reads and changes, in a few steps that neither wait nor call
/// clients.
pub(super) struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and only one guard exists at a time, on any
// thread.
unsafe impl<T: Send> Send for Spin<T> {}
// SAFETY: as above: a shared lock gives the value to one thread at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// A guard: the lock is held while it lives.
pub(super) struct Guard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub(super) const fn new(value: T) -> Self {
        Spin {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        // Acquire: pairs with the release of the last holder, so that its changes are visible.
        while self.taken.swap(true, Ordering::Acquire) {
            crate::atomic::relax();
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one until it is dropped.
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
        // Release: pairs with the acquire of the next holder.
        self.0.taken.store(false, Ordering::Release);
    }
}
