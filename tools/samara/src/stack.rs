//! Room on the stack, whatever `ulimit -s` leaves: the limit is meant for the traced program, which inherits it.

use std::{panic, thread};

/// More stack than any command needs.
const ENOUGH: usize = 1 << 20;

/// Does the work where there is room for it: here, or else in a thread of its own.
pub(crate) fn with_room(work: fn() -> i32) -> i32 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a valid place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    if limit.rlim_cur >= ENOUGH as u64 {
        return work();
    }
    match thread::Builder::new().stack_size(8 * ENOUGH).spawn(work) {
        Ok(worker) => {
            // They are to interrupt the thread that waits for the traced program.
            take_no_signals();
            worker
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        }
        Err(_) => work(),
    }
}

/// Leaves all signals to the other threads.
fn take_no_signals() {
    // SAFETY: all zeros is a valid set, which the first call fills; the second changes the mask of this thread.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
