//! Threads that may be within a page fault that began before a given moment.
//!
//! A fault gives an area its `anon_vma` first and its page later. Until the page shows, only the
//! thread's behaviour reveals the fault. Either the thread waits, and not in a call
//! (proc_pid_syscall(5)), or it has not run for as long as a fault takes. A clock cannot tell that:
//! on a busy machine a thread may not run for long.

use samara_linux::Tid;
use samara_linux::proc::{call_of, stat_of, threads};

use super::making::waits_for_others;

/// The processor time after which a thread is at the end of its fault, in ticks of
/// proc_pid_stat(5). There are a hundred ticks in a second.
const LONGEST: u64 = 2;

/// The state of such faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    /// All have ended.
    Ended,
    /// A thread waits within one.
    Wait,
    /// A thread has not run long enough yet.
    MayRun,
}

/// The threads of a process that may be within a fault.
#[derive(Debug)]
pub(crate) struct Faulting {
    /// Each thread, with the ticks for which it had run at first.
    threads: Vec<(Tid, u64)>,
}

impl Faulting {
    /// Returns all threads of a process but `tid`, which stands still.
    pub(crate) fn beside(tid: Tid, process: Tid) -> Self {
        let others = threads(process).unwrap_or_default();
        let others = others.into_iter().filter(|other| *other != tid);
        let ran = |tid| Some((tid, stat_of(tid)?.ran));
        Self {
            threads: others.filter_map(ran).collect(),
        }
    }

    /// Returns the current state of the faults.
    pub(crate) fn look(&mut self) -> Faults {
        let mut found = Faults::Ended;
        self.threads.retain(|&(tid, before)| {
            let Some(stat) = stat_of(tid) else {
                return false;
            };
            let waits = match stat.state {
                b'S' => call_of(tid).is_none(),
                b'D' => !waits_for_others(tid),
                b'R' if stat.ran < before + LONGEST => {
                    if found == Faults::Ended {
                        found = Faults::MayRun;
                    }
                    return true;
                }
                _ => false,
            };
            if waits {
                found = Faults::Wait;
            }
            waits
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Uses threads of this process: one runs until it is told, and then waits in a call. The
    /// test's own thread is left out.
    #[test]
    fn a_thread_that_runs_or_waits_in_a_call_has_ended_its_fault() {
        let (tell, told) = mpsc::channel::<()>();
        let (give, tid) = mpsc::channel();
        let runs = std::thread::spawn(move || {
            // SAFETY: the call takes nothing and returns a number.
            give.send(unsafe { libc::gettid() }).unwrap();
            while told.try_recv().is_err() {}
        });
        let tid = tid.recv().unwrap();
        let mut faulting = Faulting {
            threads: vec![(tid, stat_of(tid).unwrap().ran)],
        };
        assert_eq!(faulting.look(), Faults::MayRun);
        while faulting.look() != Faults::Ended {
            std::thread::yield_now();
        }
        tell.send(()).unwrap();
        runs.join().unwrap();
        // The thread is gone.
        faulting.threads.push((tid, u64::MAX - LONGEST));
        assert_eq!(faulting.look(), Faults::Ended);
    }
}
