//! Wait queues and timeouts.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_mm::Errno;
use spin::Mutex;

use super::thread::{Thread, current};
use super::{scheduler, signals};
use crate::arch::{Arch, Machine};

/// The threads that wait for one event.
#[derive(Default)]
pub struct WaitQueue {
    threads: Mutex<Vec<Arc<Thread>>>,
}

impl WaitQueue {
    pub const fn new() -> Self {
        WaitQueue { threads: Mutex::new(Vec::new()) }
    }

    /// Wakes all threads of the queue. Each checks its condition again.
    pub fn wake(&self) {
        let threads = core::mem::take(&mut *self.threads.lock());
        threads.iter().for_each(scheduler::wake);
    }

    fn add(&self, thread: &Arc<Thread>) {
        self.threads.lock().push(thread.clone());
    }

    fn remove(&self, thread: &Arc<Thread>) {
        self.threads.lock().retain(|other| !Arc::ptr_eq(other, thread));
    }
}

/// The reason why a wait ended without its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// A signal must be delivered.
    Interrupted,
    /// The deadline has passed.
    TimedOut,
}

impl From<WaitError> for Errno {
    fn from(ended: WaitError) -> Errno {
        match ended {
            WaitError::Interrupted => Errno::EINTR,
            WaitError::TimedOut => Errno::ETIMEDOUT,
        }
    }
}

/// Waits until `condition` returns a value, and calls it again each time one of the queues is
/// woken. `deadline` is a time of [`Machine::now`].
///
/// # Errors
///
/// [`WaitError`], after a last call of `condition` that returned `None`.
pub fn until<T>(
    queues: &[&WaitQueue],
    deadline: Option<u64>,
    mut condition: impl FnMut() -> Option<T>,
) -> Result<T, WaitError> {
    if let Some(found) = condition() {
        return Ok(found);
    }
    let thread = current();
    loop {
        // The thread can be woken before it checks the condition. The check sees an event that
        // comes before it, and a later event wakes the thread.
        scheduler::prepare_to_wait(&thread);
        queues.iter().for_each(|queue| queue.add(&thread));
        let timer = deadline.map(|at| add_timer(at, &thread));
        let found = condition();
        let late = deadline.is_some_and(|at| Arch::now() >= at);
        let result = match found {
            Some(found) => Some(Ok(found)),
            None if signals::has_pending(&thread) => {
                scheduler::recheck_signals();
                Some(Err(WaitError::Interrupted))
            }
            None if late => Some(Err(WaitError::TimedOut)),
            None => None,
        };
        match result {
            Some(_) => scheduler::cancel_wait(&thread),
            None => scheduler::block(&thread),
        }
        queues.iter().for_each(|queue| queue.remove(&thread));
        if let Some(timer) = timer {
            TIMERS.lock().remove(&timer);
        }
        if let Some(result) = result {
            return result;
        }
    }
}

/// Waiting threads by their deadlines. The second number makes the keys unique.
static TIMERS: Mutex<BTreeMap<(u64, u64), Arc<Thread>>> = Mutex::new(BTreeMap::new());

fn add_timer(at: u64, thread: &Arc<Thread>) -> (u64, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = (at, NEXT.fetch_add(1, Ordering::Relaxed));
    TIMERS.lock().insert(key, thread.clone());
    key
}

/// Wakes the threads whose deadlines have passed.
pub(super) fn expire(now: u64) {
    loop {
        let first = {
            let mut timers = TIMERS.lock();
            match timers.first_key_value() {
                Some((&(at, _), _)) if at <= now => timers.pop_first(),
                _ => None,
            }
        };
        let Some((_, thread)) = first else { break };
        scheduler::wake(&thread);
    }
    signals::expire_alarms(now);
}
