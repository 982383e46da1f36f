//! The function that a thread runs while it waits for a lock held for a few hundred instructions.

use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The function given to [`set_relax`]; null before.
static RELAX: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets the function that a thread calls each time it finds a lock taken. It applies to the locks
/// of tables, frames and VMAs of this crate and of `samara-mm`.
///
/// The default is a spin-loop hint, which suits a kernel that does not switch threads within a
/// call. A kernel that does may have descheduled the lock's holder: its `relax` lets other threads
/// run, perhaps after some spins. The function runs inside calls, with or without locks of the
/// platform held, and must not call this library. A thread that waits already may spin once more
/// before it uses the new function.
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

/// Calls the function given to [`set_relax`] once, or gives the processor a spin-loop hint if there
/// is none. Other crates use it in loops on their own locks.
#[cold]
#[inline(never)]
pub fn relax() {
    let set = RELAX.load(Ordering::Relaxed);
    if set.is_null() {
        core::hint::spin_loop();
        return;
    }
    // SAFETY: not null, so `set_relax` stored it: it is a function of this type.
    let relax = unsafe { mem::transmute::<*mut (), fn()>(set) };
    relax();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use crate::spin::Spin;

    #[test]
    fn a_waiting_thread_calls_the_relax_function() {
        static WAITS: AtomicBool = AtomicBool::new(false);
        super::set_relax(|| {
            WAITS.store(true, Ordering::Relaxed);
            thread::yield_now();
        });
        let lock = Spin::new(0);
        thread::scope(|scope| {
            let mut held = lock.lock();
            scope.spawn(|| *lock.lock() += 1);
            // The lock is released only after the other thread has waited.
            while !WAITS.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            *held += 1;
        });
        assert_eq!(*lock.lock(), 2);
    }
}
