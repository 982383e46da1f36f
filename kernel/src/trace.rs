//! The trace for `samara replay`: every memory call of every process with its result, and the maps
//! after it.
//!
//! The trace is written if the command line has the word `trace`. Without it, a call only loads a
//! flag. The trace goes to the log in lines that begin with byte 3, as hexadecimal digits.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_mm::{Call, Errno, Limits};
use samara_record::Recorder;
use spin::Mutex;

use crate::arch::{Arch, Machine};
use crate::memory::Memory;

static ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<OwnRecorder>> = Mutex::new(None);

type OwnRecorder = Recorder<fn(&[u8])>;

/// Begins the trace.
pub fn start(program: &[Vec<u8>]) {
    let words: Vec<&[u8]> = program.iter().map(Vec::as_slice).collect();
    let kernel = samara_mm::Config::default().kernel;
    *RECORDER.lock() = Some(Recorder::new(&words, kernel, send));
    ON.store(true, Ordering::Relaxed);
}

fn with<R>(tell: impl FnOnce(&mut OwnRecorder) -> R) -> Option<R> {
    if ON.load(Ordering::Relaxed) { RECORDER.lock().as_mut().map(tell) } else { None }
}

fn id(memory: &Memory) -> u64 {
    memory.asid().into()
}

/// Performs a call of a thread, and records it if the trace is on.
///
/// # Errors
///
/// Those of the call.
pub fn perform(thread: i32, memory: &Memory, call: &Call) -> Result<u64, Errno> {
    let recorded = with(|recorder| {
        memory.with_space(|space| recorder.before_call(id(memory), space));
        let result = memory.perform(call);
        let thread = thread as u64;
        memory.with_space(|space| recorder.call(id(memory), space, thread, call, result));
        result
    });
    recorded.unwrap_or_else(|| memory.perform(call))
}

/// Records that `exec` has loaded a program into this memory.
pub fn executed(memory: &Memory) {
    with(|recorder| memory.with_space(|space| recorder.started(id(memory), space)));
}

pub fn forked(parent: &Memory, child: &Memory) {
    with(|recorder| {
        parent.with_space(|of_parent| {
            child.with_space(|of_child| {
                recorder.forked((id(parent), of_parent), (id(child), of_child));
            });
        });
    });
}

pub fn set_limits(memory: &Memory, limits: Limits) {
    memory.set_limits(limits);
    with(|recorder| recorder.limits(id(memory), &limits));
}

/// Records the end of a process's memory. `main` is `true` for the first process.
pub fn gone(memory: &Memory, main: bool) {
    with(|recorder| recorder.gone(id(memory), main));
}

/// Records the status of the first process, and ends the trace.
pub fn end(code: i32, signal: i32) {
    with(|recorder| recorder.end(code, signal));
    *RECORDER.lock() = None;
}

fn send(bytes: &[u8]) {
    let mut line = String::from("\u{3}");
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    Arch::log_write(line.as_bytes());
}
