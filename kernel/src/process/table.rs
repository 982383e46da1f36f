//! The table of processes, by number.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};

use spin::Mutex;

use super::thread::{Process, Thread};

static PROCESSES: Mutex<BTreeMap<i32, Arc<Process>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicI32 = AtomicI32::new(1);

/// Returns a number that no thread or process has.
pub(super) fn new_pid() -> i32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(super) fn insert(process: &Arc<Process>) {
    PROCESSES.lock().insert(process.pid, process.clone());
}

pub(super) fn remove(pid: i32) {
    PROCESSES.lock().remove(&pid);
}

pub fn find(pid: i32) -> Option<Arc<Process>> {
    PROCESSES.lock().get(&pid).cloned()
}

/// Returns all processes, in ascending order of their numbers.
pub fn processes() -> Vec<Arc<Process>> {
    PROCESSES.lock().values().cloned().collect()
}

/// Returns the process with the highest rank. A process whose rank is `None` is left out.
pub(super) fn max_by<R: Ord>(rank: impl Fn(&Process) -> Option<R>) -> Option<Arc<Process>> {
    let processes = PROCESSES.lock();
    let ranked = processes.values().filter_map(|process| Some((rank(process)?, process)));
    ranked.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, process)| process.clone())
}

/// Returns the thread with this number, if it has not exited.
pub fn find_thread(tid: i32) -> Option<Arc<Thread>> {
    let of = |process: &Arc<Process>| {
        process.threads.lock().iter().find(|thread| thread.tid == tid).cloned()
    };
    // Most threads are the first of their process.
    find(tid).as_ref().and_then(of).or_else(|| processes().iter().find_map(of))
}
