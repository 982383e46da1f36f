//! What a thread does while it waits for a lock that is held for a few hundred instructions.

use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What [`set_relax`] has been given; null before.
static RELAX: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets what a thread does each time that it has found a lock of tables, frames or areas taken, in this crate and in `samara-mm`.
///
/// By default that is a hint to the processor, which suits a kernel that does not switch threads within a call. One that does so may put the thread aside that holds
/// the lock: there, `relax` lets other threads run, perhaps after some looks. It is called from within calls, with locks of the platform held or not, and must
/// not call this library. Threads that wait already may look once more before they use it.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static WAITED: AtomicU64 = AtomicU64::new(0);
///
/// samara_paging::set_relax(|| {
///     WAITED.fetch_add(1, Ordering::Relaxed);
///     std::thread::yield_now(); // a kernel's scheduler
/// });
/// ```
pub fn set_relax(relax: fn()) {
    RELAX.store(relax as *mut (), Ordering::Relaxed);
}

/// Calls the function of [`set_relax`] once. Without one, it gives the processor a hint. Other crates use this in loops on their own locks.
#[cold]
#[inline(never)]
pub fn relax() {
    let set = RELAX.load(Ordering::Relaxed);
    if set.is_null() {
        core::hint::spin_loop();
        return;
    }
    // SAFETY: not null, and so what `set_relax` has stored: a function of this type.
    let relax = unsafe { mem::transmute::<*mut (), fn()>(set) };
    relax();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use crate::spin::Spin;

    #[test]
    fn who_waits_for_a_lock_does_what_was_set() {
        static WAITS: AtomicBool = AtomicBool::new(false);
        super::set_relax(|| {
            WAITS.store(true, Ordering::Relaxed);
            thread::yield_now();
        });
        let lock = Spin::new(0);
        thread::scope(|scope| {
            let mut held = lock.lock();
            scope.spawn(|| *lock.lock() += 1);
            // It is given back only when the other thread has been told to wait.
            while !WAITS.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            *held += 1;
        });
        assert_eq!(*lock.lock(), 2);
    }
}
