//! The thread through which a process is asked for its memory.
//!
//! A process lives on when its first thread has ended (`pthread_exit` in `main`). `/proc/PID` then
//! shows that thread, which has no memory: `maps` and `smaps` are empty, `mem` and `pagemap` do not
//! open, `exe` and `fd` lead nowhere. `/proc/TID` of a thread that lives shows all of it. Whatever
//! is read of a process's memory, files or program is therefore read through [`Living`].
//!
//! # Invariants
//! - An answer counts if the thread still had memory after it was given, or if no thread of the
//!   process has any: a process that ends concurrently is told of as its last thread shows it.
//! - The first thread is asked as long as it has memory.
//!
//! What belongs to the process whatever thread is asked (its name, its number, its user) does not
//! come from here.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use crate::{Tid, proc, proc_file};

/// A process, and the thread of it that is asked.
#[derive(Debug, Clone)]
pub struct Living {
    process: Tid,
    through: Cell<Tid>,
}

impl Living {
    /// Returns the process of a thread, or the process itself.
    pub fn of(tid: Tid) -> Self {
        let process = process_of(tid);
        let living = Self {
            process,
            through: Cell::new(process),
        };
        if !has_memory(process, process) {
            living.choose_other();
        }
        living
    }

    /// Returns the process of a thread that is known to have memory: it is asked first.
    pub fn through(tid: Tid) -> Self {
        Self {
            process: process_of(tid),
            through: Cell::new(tid),
        }
    }

    /// Returns the number of the process.
    pub fn process(&self) -> Tid {
        self.process
    }

    /// Asks a thread with memory. Asks another one if that one has ended before the answer was
    /// complete.
    pub fn ask<T>(&self, mut question: impl FnMut(Tid) -> T) -> T {
        loop {
            let tid = self.through.get();
            let answer = question(tid);
            if has_memory(self.process, tid) || !self.choose_other() {
                return answer;
            }
        }
    }

    /// Chooses a thread that has memory. Returns `false` if there is none.
    fn choose_other(&self) -> bool {
        let found = with_memory(Path::new(&format!("/proc/{}", self.process)));
        if let Some(tid) = found {
            self.through.set(tid);
        }
        found.is_some()
    }
}

/// Returns the first thread with memory of the process that a folder like `/proc/PID` shows.
pub fn with_memory(folder: &Path) -> Option<Tid> {
    let mut before = Vec::new();
    loop {
        let listed = threads(folder)?;
        let shows = |tid: &&Tid| shows_memory(&folder.join("task").join(tid.to_string()));
        if let Some(tid) = listed.iter().find(shows) {
            return Some(*tid);
        }
        // Those that were listed may have made others, and ended, before they were looked at.
        if listed == before {
            return None;
        }
        before = listed;
    }
}

/// Returns the threads of a process, ascending.
fn threads(folder: &Path) -> Option<Vec<Tid>> {
    let tasks = fs::read_dir(folder.join("task")).ok()?.flatten();
    let mut tids: Vec<Tid> = tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect();
    tids.sort_unstable();
    Some(tids)
}

/// Returns `true` if a thread of the process has memory: it has not ended, and is none of the
/// kernel's.
fn has_memory(process: Tid, tid: Tid) -> bool {
    shows_memory(Path::new(&format!("/proc/{process}/task/{tid}")))
}

fn shows_memory(folder: &Path) -> bool {
    // Bytes mapped, which everybody may read; proc_pid_stat(5) counts from 1, and the name, field
    // 2, may hold anything.
    const SIZE: usize = 23;
    let stat = proc_file::read_text_piece(folder.join("stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let size = behind_name.split_ascii_whitespace().nth(SIZE - 3);
    size.is_some_and(|size| size != "0")
}

/// Returns the process that a thread belongs to; the number itself if nothing has it.
fn process_of(tid: Tid) -> Tid {
    // SAFETY: takes numbers, and no signal is sent.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, tid, tid, 0) };
    let error = std::io::Error::last_os_error().raw_os_error();
    if sent == 0 || error != Some(libc::ESRCH) {
        return tid;
    }
    match proc::family(tid) {
        Ok((process, _)) if process > 0 => process,
        _ => tid,
    }
}
