//! Spin locks, which are held for a few hundred instructions at most.

use crate::atomic::{AtomicBool, Ordering};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Waits briefly. A hosted program yields every 64 rounds, because the holder may not be running.
#[cold]
#[inline(never)]
pub(crate) fn relax(rounds: &mut u32) {
    *rounds = rounds.wrapping_add(1);
    #[cfg(samara_loom)]
    loom::thread::yield_now();
    #[cfg(any(test, feature = "hosted"))]
    if rounds.is_multiple_of(64) {
        std::thread::yield_now();
        return;
    }
    crate::relax::relax();
}

/// A value protected by a spin lock.
#[derive(Debug)]
pub(crate) struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value, which is `Send`.
unsafe impl<T: Send> Sync for Spin<T> {}

pub(crate) struct SpinGuard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        let mut rounds = 0;
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            relax(&mut rounds);
        }
        SpinGuard(self)
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}
