//! Waits for a stop that is about to come: the return of a call that was just started, which most
//! likely returns at once.
//!
//! The tracer does not sleep for that, because waking costs time. It polls, since a thread may take
//! the processor at once and be back already. It yields, in case the thread waits for the same
//! processor, and polls again. If other threads want the processor, too, each yield would give them
//! a whole time slice. Then the tracer sleeps as usual for a number of calls.

use std::io;
use std::time::{Duration, Instant};

use samara_linux::Tid;
use samara_linux::ptrace::{self, Stop};

/// The longest time to poll: the thread's own processor may have to wake first. Waking twice would
/// take longer.
const LONGEST: Duration = Duration::from_micros(30);
/// A yield that takes this long has shared the processor with other threads.
const CROWDED: Duration = Duration::from_micros(500);
/// The number of calls to sleep for after that, at first and at most.
const LEAST: u32 = 64;
const MOST: u32 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Shortly {
    /// The number of calls still to sleep for.
    asleep: u32,
    /// The number of calls to sleep for the next time.
    pause: u32,
}

impl Shortly {
    pub(crate) fn new() -> Self {
        Self {
            asleep: 0,
            pause: LEAST,
        }
    }

    /// Waits like [`ptrace::wait`].
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
            // SAFETY: the call takes nothing.
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
