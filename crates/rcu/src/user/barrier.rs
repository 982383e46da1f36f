//! An asymmetric fence: almost free for readers, a system call for writers.
//!
//! `membarrier` (Linux 4.14) returns when every running thread of the program has executed a full
//! barrier. While one thread is in [`heavy`], another may execute [`light`]. The kernel's barrier
//! falls at some point of that other thread's program: before or after its `light`, which keeps the
//! compiler from moving accesses across. So one of these holds, as with two sequentially consistent
//! fences:
//!
//! * The barrier comes after the reader's accesses before `light`. Then the writer sees them after
//!   `heavy`.
//! * It comes before the reader's accesses after `light`. Then they see what the writer did before
//!   `heavy`.
//!
//! Without that system call, both sides are fences.

use crate::atomic::{Ordering, fence};

#[cfg(all(target_os = "linux", not(any(samara_loom, miri))))]
mod kernel {
    use core::sync::atomic::{AtomicU8, Ordering};

    /// The decision to use the call. It is made once, since both sides must do the same.
    static USED: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes three numbers, and touches no memory of the program.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    #[inline(always)]
    pub(super) fn used() -> bool {
        match USED.load(Ordering::Relaxed) {
            YES => true,
            NO => false,
            _ => decide(),
        }
    }

    fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    #[cold]
    fn decide() -> bool {
        let works = register() && expedited();
        let now = if works { YES } else { NO };
        match USED.compare_exchange(UNKNOWN, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => works,
            Err(there) => there == YES,
        }
    }

    fn expedited() -> bool {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    pub(super) fn call() -> bool {
        // A forked child may have to register again.
        expedited() || register() && expedited()
    }
}

#[cfg(not(all(target_os = "linux", not(any(samara_loom, miri)))))]
mod kernel {
    #[inline(always)]
    pub(super) fn used() -> bool {
        false
    }

    pub(super) fn call() -> bool {
        false
    }
}

/// The readers' side of the fence.
#[inline(always)]
pub(super) fn light() {
    if kernel::used() {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Executes the writers' side of the fence. Returns `false`, without ordering anything, if the
/// kernel no longer permits the call.
pub(super) fn heavy() -> bool {
    if kernel::used() {
        kernel::call()
    } else {
        fence(Ordering::SeqCst);
        true
    }
}
