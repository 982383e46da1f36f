//! Waiting for a stop that is about to come: of a call that has just been let run, and most likely returns at once.
//!
//! The tracer does not sleep at once, only to be woken again. It polls, because a thread that is
//! let go may run at once and have stopped again already. If the thread waits for the same
//! processor, the tracer yields it, and polls again. If other processes want the processor, too,
//! each yield would give them a whole time slice. Then the tracer sleeps as usual, for a number of
//! calls.

use std::io;
use std::time::{Duration, Instant};

use samara_linux::Tid;
use samara_linux::ptrace::{self, Stop};

/// So long it looks again and again: the thread's own processor may have to wake first. To wake twice would take longer.
const LONGEST: Duration = Duration::from_micros(30);
/// A processor that comes back after this time has been shared with others.
const CROWDED: Duration = Duration::from_micros(500);
/// Calls to sleep for after that, at first and at most.
const LEAST: u32 = 64;
const MOST: u32 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Shortly {
    /// Calls still to sleep for.
    asleep: u32,
    /// The number of calls to sleep the next time.
    pause: u32,
}

impl Shortly {
    pub(crate) fn new() -> Self {
        Self {
            asleep: 0,
            pause: LEAST,
        }
    }

    /// As [`ptrace::wait`] does.
    pub(crate) fn wait(&mut self, tid: Tid) -> io::Result<Option<(Tid, Stop)>> {
        if self.asleep > 0 {
            self.asleep -= 1;
            return ptrace::wait(tid, false);
        }
        if let Some(stop) = ptrace::wait(tid, true)? {
            return Ok(Some(stop));
        }
        let begun = Instant::now();
        let mut before = begun;
        while before - begun < LONGEST {
            // SAFETY: takes nothing.
            unsafe { libc::sched_yield() };
            let now = Instant::now();
            if now - before > CROWDED {
                self.asleep = self.pause;
                self.pause = (self.pause * 2).min(MOST);
                break;
            }
            if let Some(stop) = ptrace::wait(tid, true)? {
                self.pause = (self.pause - 1).max(LEAST);
                return Ok(Some(stop));
            }
            before = now;
        }
        ptrace::wait(tid, false)
    }
}
