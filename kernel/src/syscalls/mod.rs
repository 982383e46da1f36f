//! System calls, one file a family. Numbers are the architecture's, and names those of the manual
//! pages.
//!
//! A call that is not implemented returns `ENOSYS`, and is logged once.

pub mod files;
mod info;
mod memory;
pub mod paths;
mod process;
pub mod signals;
mod terminal;
pub mod threads;
pub mod time;
pub mod user;

use alloc::sync::Arc;

use samara_mm::Errno;
use spin::Mutex;
use syscalls::{Sysno, SysnoSet};

use crate::arch::{Arch, Machine, UserFrame};
use crate::log;
use crate::process::{Frame, Thread, scheduler};

/// A system call in progress.
pub struct Call<'a> {
    pub thread: &'a Arc<Thread>,
    pub frame: &'a mut Frame,
    pub args: [u64; 6],
}

/// The result of a system call.
pub type Outcome = Result<i64, Errno>;

/// Performs the system call of a frame, and sets its result.
pub fn perform(thread: &Arc<Thread>, frame: &mut Frame) {
    let (number, args) = frame.call();
    let Some(name) = Sysno::new(number as usize) else {
        return frame.set_result(-i64::from(Errno::ENOSYS.0));
    };
    let mut call = Call { thread, frame, args };
    let outcome = match dispatch(name, &mut call) {
        // The frame is that of another program, or of an earlier state of this one.
        Some(Ok(FRAME_REPLACED)) => return scheduler::recheck_signals(),
        Some(outcome) => outcome,
        None => {
            log_once(name);
            Err(Errno::ENOSYS)
        }
    };
    call.frame.set_result(outcome.unwrap_or_else(|error| -i64::from(error.0)));
}

/// The result of a call that has replaced the whole frame.
pub const FRAME_REPLACED: i64 = i64::MIN;

fn log_once(name: Sysno) {
    static LOGGED: Mutex<Option<SysnoSet>> = Mutex::new(None);
    let mut logged = LOGGED.lock();
    if logged.get_or_insert_with(SysnoSet::empty).insert(name) {
        log!("system call {} is not implemented", name.name());
    }
}

/// Performs a call, or returns `None` if it is not implemented.
fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    #[cfg(feature = "refusals")]
    if let Some(outcome) = crate::refusals::dispatch(name, call) {
        return Some(outcome);
    }
    memory::dispatch(name, call)
        .or_else(|| files::dispatch(name, call))
        .or_else(|| paths::dispatch(name, call))
        .or_else(|| process::dispatch(name, call))
        .or_else(|| signals::dispatch(name, call))
        .or_else(|| threads::dispatch(name, call))
        .or_else(|| time::dispatch(name, call))
        .or_else(|| info::dispatch(name, call))
        .or_else(|| Arch::arch_call(name, call))
}
