//! Waiting for a stop that is about to come: of a call that has just been let run, and most likely returns at once.
//!
//! The tracer does not fall asleep for that, only to be woken again: it lets the thread run, if that is waiting for the same processor, and looks.
//! Where others want the processor, too, they would get it for all of their turn each time: then the tracer sleeps as ever, for so many calls.

use std::io;
use std::time::{Duration, Instant};

use super::ptrace::{self, Stop, Tid};

/// A processor that is shared with the thread alone needs one; others may be a little later.
const LOOKS: u32 = 3;
/// Who gets the processor back so late has shared it with others.
const CROWDED: Duration = Duration::from_micros(500);
/// Calls to sleep for after that, at first and at most.
const LEAST: u32 = 64;
const MOST: u32 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Shortly {
    /// Calls still to sleep for.
    asleep: u32,
    /// How many it will be the next time.
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
        for _ in 0..LOOKS {
            let begun = Instant::now();
            // SAFETY: takes nothing.
            unsafe { libc::sched_yield() };
            if begun.elapsed() > CROWDED {
                self.asleep = self.pause;
                self.pause = (self.pause * 2).min(MOST);
                break;
            }
            if let Some(stop) = ptrace::wait(tid, true)? {
                self.pause = (self.pause - 1).max(LEAST);
                return Ok(Some(stop));
            }
        }
        ptrace::wait(tid, false)
    }
}
