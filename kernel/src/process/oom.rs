//! The OOM killer. When memory runs out, it kills the process with the highest score
//! (`proc_pid_oom_score_adj(5)`) and frees the process's pages before the process runs again.

use core::sync::atomic::{AtomicU32, Ordering};

use alloc::sync::Arc;
use samara_mm::observe::badness;
use samara_mm::process::{Access, Fault};

use super::exit::exit_group;
use super::signals::SIGKILL;
use super::thread::{Process, Thread, current};
use super::{scheduler, table};
use crate::log;
use crate::memory::{Memory, heap, managed_frames};

/// Handles a fault. Kills processes until the fault succeeds, fails for another reason, or the
/// caller's process is the one that was killed.
pub fn fault(memory: &Memory, address: u64, access: Access) -> Result<(), Fault> {
    loop {
        let result = memory.fault(address, access);
        if result != Err(Fault::NoMemory) || current().is_ending() {
            return result;
        }
        out_of_memory();
    }
}

/// Makes the heap's reserve whole again if earlier calls have used it.
pub(super) fn refill_reserve(thread: &Thread) {
    while !heap::refill_reserve() && !thread.is_ending() {
        out_of_memory();
    }
}

/// Does what `Process::copy_in` does, with the faults of [`fault`]. Returns the number of bytes
/// copied.
pub fn copy_in(memory: &Memory, at: u64, bytes: &[u8]) -> usize {
    copy(memory, at, bytes.len(), Access::WRITE, |done| {
        memory.copy_in(at.wrapping_add(done as u64), &bytes[done..])
    })
}

/// Does what `Process::copy_out` does, with the faults of [`fault`]. Returns the number of bytes
/// copied.
pub fn copy_out(memory: &Memory, at: u64, bytes: &mut [u8]) -> usize {
    copy(memory, at, bytes.len(), Access::READ, |done| {
        memory.copy_out(at.wrapping_add(done as u64), &mut bytes[done..])
    })
}

fn copy(
    memory: &Memory,
    at: u64,
    len: usize,
    access: Access,
    mut piece: impl FnMut(usize) -> usize,
) -> usize {
    let mut done = 0;
    loop {
        let more = piece(done);
        done += more;
        let is_new = more > 0 || done == 0;
        if done >= len || !is_new || fault(memory, at.wrapping_add(done as u64), access).is_err() {
            return done;
        }
    }
}

/// The number of consecutive searches that found no process to kill other than the first.
static NO_VICTIM: AtomicU32 = AtomicU32::new(0);
const MAX_RETRIES: u32 = 10_000;

/// Kills the process with the highest score. If a process is exiting already, lets it run instead,
/// because it frees its memory.
fn out_of_memory() {
    let ends = |process: &Process| {
        let ends = process.exiting.load(Ordering::SeqCst) && process.pid != 1;
        (ends && !process.is_ended()).then_some(())
    };
    if table::max_by(ends).is_some() {
        return scheduler::yield_now();
    }
    let rank = |process: &Process| {
        let memory = process.memory.lock().clone().filter(|_| process.pid != 1)?.memory();
        badness(memory.resident() + memory.swap, 0, managed_frames())
    };
    // The first process is killed only if there is no other, because the machine ends with it. No
    // other may be found for a moment: a child before it is in the table, or a process that has
    // just left it, may hold the memory.
    let worst = table::max_by(rank);
    let before = NO_VICTIM.fetch_add(1, Ordering::Relaxed);
    if worst.is_some() {
        NO_VICTIM.store(0, Ordering::Relaxed);
    } else if before < MAX_RETRIES {
        return scheduler::yield_now();
    }
    let Some(victim) = worst.or_else(|| table::find(1)) else { return };
    let Some(memory) = victim.memory.lock().clone() else { return };
    log_kill(&victim, &memory);
    let users = |process: &Process| {
        let same = process.memory.lock().as_ref().is_some_and(|other| Arc::ptr_eq(other, &memory));
        if same && (process.pid != 1 || victim.pid == 1) {
            exit_group(process, SIGKILL);
        }
        (same && process.pid == 1).then_some(())
    };
    if table::max_by(users).is_none() {
        memory.reap();
    }
}

/// Logs Linux's message about a killed process.
fn log_kill(process: &Process, memory: &Memory) {
    let memory = memory.memory();
    let name = process.threads.lock().first().map_or([0; 16], |thread| *thread.name.lock());
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    log!(
        "Out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB, shmem-rss:{}kB, UID:0 oom_score_adj:0",
        process.pid,
        name.escape_ascii(),
        memory.mapped.total * 4,
        memory.anon * 4,
        memory.file * 4,
        memory.shmem * 4,
    );
}
