//! The record that `samara replay` performs again: every memory call of every process with its result, and the maps after it.
//!
//! It is kept if the command line has the word `trace`; else a call costs a look at a flag. The record goes to the log in lines that begin with byte 3, as
//! hexadecimal digits.

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

/// Begins the record.
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

/// Performs a call of a thread.
///
/// # Errors
/// The call's.
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

/// A program was started in this memory.
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

/// The memory ends; `main`: it is that of the first process.
pub fn gone(memory: &Memory, main: bool) {
    with(|recorder| recorder.gone(id(memory), main));
}

/// The machine ends, and the first process had this status.
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
