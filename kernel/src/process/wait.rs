//! Waiting for something to happen, or for a time.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_mm::Errno;
use spin::Mutex;

use super::thread::{Thread, current};
use super::{scheduler, signals};
use crate::arch::{Arch, Machine};

/// Threads that wait for one thing.
#[derive(Default)]
pub struct WaitQueue {
    threads: Mutex<Vec<Arc<Thread>>>,
}

impl WaitQueue {
    pub const fn new() -> Self {
        WaitQueue { threads: Mutex::new(Vec::new()) }
    }

    /// Wakes all of them; each looks again at what it waits for.
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

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// A signal is to be delivered.
    Interrupted,
    /// The time is over.
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

/// Waits until `look` finds something, looking each time that one of the queues is woken. `deadline` is in nanoseconds of [`Machine::now`].
///
/// # Errors
/// [`WaitError`]; `look` has found nothing then.
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
        // First it can be woken, then it looks: what happens in between is seen by the look, or wakes it.
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

/// Threads by the time at which they are woken.
static TIMERS: Mutex<BTreeMap<(u64, u64), Arc<Thread>>> = Mutex::new(BTreeMap::new());

fn add_timer(at: u64, thread: &Arc<Thread>) -> (u64, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = (at, NEXT.fetch_add(1, Ordering::Relaxed));
    TIMERS.lock().insert(key, thread.clone());
    key
}

/// Wakes those whose time has come.
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
