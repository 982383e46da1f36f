//! The threads of a process, stopped for a moment.

use std::fs;
use std::io;

use samara_linux::Tid;
use samara_linux::proc_file::read_text;
use samara_linux::ptrace::{self, Stop};
use samara_mm::observe::core_file::{Ids, ThreadStatus};

use super::xsave;

/// Registers that core files have: `NT_PRSTATUS`, `NT_PRFPREG` and `NT_X86_XSTATE`.
const GENERAL: u32 = 1;
const FLOATING: u32 = 2;
const EXTENDED: u32 = 0x202;

/// A thread that stands still.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) status: ThreadStatus,
    pub(super) floating: Option<Vec<u8>>,
    pub(super) extended: Option<Vec<u8>>,
    /// The signal information that it got, or otherwise that of its stop.
    pub(super) signal: Vec<u8>,
}

/// All threads of a process. They run on when this is dropped.
#[derive(Debug)]
pub(super) struct Stopped {
    /// Each with the signal that is still to be delivered to it.
    tids: Vec<(Tid, i32)>,
}

impl Stopped {
    /// Stops all threads of a process, this one first, including those that others start during the
    /// stop.
    ///
    /// # Errors
    /// The first one of attaching to that thread.
    pub(super) fn all(pid: i32, first: Tid) -> io::Result<Self> {
        let mut stopped = Stopped { tids: Vec::new() };
        stopped.one(first)?;
        loop {
            let known = stopped.tids.len();
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                let name = task?.file_name();
                let tid = name.to_str().and_then(|name| name.parse().ok());
                if let Some(tid) = tid
                    && stopped.tids.iter().all(|(known, _)| *known != tid)
                {
                    // It may have ended before it could be stopped.
                    let _ = stopped.one(tid);
                }
            }
            // Stopped threads start no others, and none was left to do so.
            if stopped.tids.len() == known {
                return Ok(stopped);
            }
        }
    }

    /// Returns the thread that was stopped first.
    pub(super) fn first(&self) -> Tid {
        self.tids.first().map_or(0, |(tid, _)| *tid)
    }

    fn one(&mut self, tid: Tid) -> io::Result<()> {
        ptrace::seize_alone(tid)?;
        ptrace::interrupt(tid)?;
        loop {
            match ptrace::wait(tid, false)? {
                None => {}
                Some((_, Stop::Exited(_) | Stop::Killed { .. })) => {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Some((_, Stop::Signal(signal))) => {
                    self.tids.push((tid, signal));
                    return Ok(());
                }
                Some(_) => {
                    self.tids.push((tid, 0));
                    return Ok(());
                }
            }
        }
    }

    /// Returns the state of each of them, the first one first. Those that were killed since are
    /// left out.
    pub(super) fn look(&self, process: Ids) -> Vec<Thread> {
        let look = |&(tid, signal): &(Tid, i32)| thread(process, tid, signal).ok();
        self.tids.iter().filter_map(look).collect()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(tid, signal) in &self.tids {
            ptrace::detach(tid, signal);
        }
    }
}

/// Returns the `siginfo_t` of a thread that an attaching debugger stops: `SIGSTOP` by the kernel,
/// as in the files of gdb's `generate-core-file`. The stop by which this program holds a thread
/// shows as a trap, which would be taken for a breakpoint.
fn stopped_from_outside() -> Vec<u8> {
    const SI_KERNEL: i32 = 0x80;
    let (signal, code) = (libc::SIGSTOP, SI_KERNEL);
    let mut bytes = vec![0; size_of::<libc::siginfo_t>()];
    // Behind the signal's number comes an error number.
    bytes[..4].copy_from_slice(&signal.to_ne_bytes());
    bytes[8..12].copy_from_slice(&code.to_ne_bytes());
    bytes
}

fn thread(process: Ids, tid: Tid, signal: i32) -> io::Result<Thread> {
    let general = ptrace::register_set(tid, GENERAL)?;
    let mut registers = [0; 27];
    for (register, bytes) in registers.iter_mut().zip(general.chunks_exact(8)) {
        *register = bytes.try_into().map_or(0, u64::from_ne_bytes);
    }
    let floating = ptrace::register_set(tid, FLOATING).ok();
    let text = read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    let set = |label| {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    Ok(Thread {
        status: ThreadStatus {
            signal: signal as u16,
            pending: set("SigPnd:"),
            blocked: set("SigBlk:"),
            ids: Ids {
                pid: tid as u32,
                ..process
            },
            registers,
            has_fp: floating.is_some(),
        },
        floating,
        extended: ptrace::register_set(tid, EXTENDED)
            .ok()
            .map(xsave::for_debuggers),
        signal: match signal {
            0 => stopped_from_outside(),
            _ => ptrace::signal_information(tid)?,
        },
    })
}
