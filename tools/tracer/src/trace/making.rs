//! Threads that are within a call that makes a process.

use samara_linux::Tid;
use samara_linux::proc::{Condition, call_of, condition};

/// Returns `true` if a thread is within a call that makes a process, and may wait for it. Also for
/// a call that replaces its program, which waits for the other threads to end.
pub(crate) fn waits_for_others(tid: Tid) -> bool {
    const REPLACING: [libc::c_long; 4] = [libc::SYS_execve, libc::SYS_execveat, 11, 358];
    call_of(tid).is_some_and(|number| is_making(number) || REPLACING.contains(&number))
}

/// Returns `true` if the number is a call that makes a process, in either table.
fn is_making(number: libc::c_long) -> bool {
    const I386: [libc::c_long; 3] = [2, 120, 190];
    let native = [
        libc::SYS_fork,
        libc::SYS_clone,
        libc::SYS_vfork,
        libc::SYS_clone3,
    ];
    native.contains(&number) || I386.contains(&number)
}

/// The possibility that a thread has made a process without having reported it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Making {
    No,
    /// It stands in such a call, to report the process.
    Told,
    /// It runs, and only its next stop can show it.
    Perhaps,
}

/// Returns the possibility that a thread has made a process without having reported it yet. All
/// stops of the thread that are known must have been answered.
pub(crate) fn making(tid: Tid) -> Making {
    for _ in 0..100 {
        // The order matters: a thread that ran before may stand by now.
        let call = call_of(tid);
        let Ok(Condition { state, .. }) = condition(tid) else {
            return Making::No;
        };
        match (call, state) {
            (_, 'Z' | 'X') => return Making::No,
            (Some(number), _) if !is_making(number) => return Making::No,
            (_, 'R') => return Making::Perhaps,
            (Some(_), 't') => return Making::Told,
            // It has reported the process, and waits for the child of its vfork.
            (Some(_), _) => return Making::No,
            (None, _) => std::thread::yield_now(),
        }
    }
    Making::Perhaps
}
