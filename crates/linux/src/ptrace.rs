//! `ptrace(2)` and `waitpid(2)`: the few operations that a tracer needs, behind safe functions.

use std::io;
use std::mem;

use crate::{Tid, memory};

/// `AUDIT_ARCH_I386`: the table of calls of i386, as [`call_point`] returns it.
pub const AUDIT_ARCH_I386: u32 = 0x4000_0003;

/// An event of one thread, as `waitpid` reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The filter stopped a call at its entry.
    Seccomp,
    /// A call returns, or begins (requested by [`resume_to_exit`]).
    Call,
    /// The thread has made a process by fork.
    Fork,
    /// The thread has made a process by vfork.
    Vfork,
    /// The thread has made a thread, or a process without a signal for its parent.
    Clone,
    /// The process has a new program.
    Exec,
    /// About to exit; its address space is still there.
    Exiting,
    /// A new thread's first stop, or the end of a group stop.
    Attached,
    /// Stopped together with its process by this signal, until SIGCONT.
    Group(i32),
    /// A signal is about to be delivered.
    Signal(i32),
    /// Gone, with this exit code.
    Exited(i32),
    /// Gone, killed by this signal.
    Killed {
        /// The signal's number.
        signal: i32,
        /// `true` if a core file was written.
        core: bool,
    },
    /// An event of no interest.
    Other,
}

impl Stop {
    /// Returns the signal that is about to be delivered; 0 for none.
    pub fn signal(self) -> i32 {
        match self {
            Stop::Signal(signal) => signal,
            _ => 0,
        }
    }
}

/// Waits for a tracee; -1 is any. Returns `None` if a signal arrived for the tracer itself, or if
/// `poll` is set and nothing has happened.
///
/// # Errors
/// `ECHILD` if there is no such tracee.
pub fn wait(tid: Tid, poll: bool) -> io::Result<Option<(Tid, Stop)>> {
    let mut status = 0;
    let flags = libc::__WALL | if poll { libc::WNOHANG } else { 0 };
    // SAFETY: `status` is a valid place for the status word.
    let tid = unsafe { libc::waitpid(tid, &mut status, flags) };
    if tid == 0 {
        return Ok(None);
    }
    if tid < 0 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            return Ok(None);
        }
        return Err(error);
    }
    Ok(Some((tid, decode(status))))
}

impl Stop {
    /// Returns `true` if it reports the end of a thread.
    pub const fn ends(self) -> bool {
        matches!(self, Stop::Exiting | Stop::Exited(_) | Stop::Killed { .. })
    }
}

fn decode(status: i32) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Killed {
            signal: libc::WTERMSIG(status),
            core: libc::WCOREDUMP(status),
        };
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_SECCOMP => Stop::Seccomp,
        libc::PTRACE_EVENT_FORK => Stop::Fork,
        libc::PTRACE_EVENT_VFORK => Stop::Vfork,
        libc::PTRACE_EVENT_CLONE => Stop::Clone,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_EXIT => Stop::Exiting,
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Attached,
        libc::PTRACE_EVENT_STOP => Stop::Group(signal),
        _ => Stop::Other,
    }
}

fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests made here take integers, or pointers that their callers keep valid.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The way in which the calls of a traced thread are made to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A filter stops them; everything else runs at full speed.
    Filtered,
    /// Every call stops, at its entry and at its return: no filter can be put on a process from outside.
    EveryCall,
    /// A thread that stops stays stopped: the tracer is about to detach.
    Hold,
}

impl Pace {
    /// Lets a thread run on, delivering `signal` (0: none).
    ///
    /// A thread that has been killed since is no error: [`wait`] reports its end.
    pub fn go(self, tid: Tid, signal: i32) {
        match self {
            Pace::Filtered => {
                let _ = request(libc::PTRACE_CONT, tid, 0, signal as usize);
            }
            Pace::EveryCall => resume_to_exit(tid, signal),
            Pace::Hold => {}
        }
    }
}

/// Attaches to a running thread, without stopping it, and to all that it will start. A program that was started for this ends
/// with the tracer; a process that ran before does not.
///
/// # Errors
/// Those of `PTRACE_SEIZE`.
pub fn seize(tid: Tid, pace: Pace) -> io::Result<()> {
    let mut options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    if pace == Pace::Filtered {
        options |= libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL;
    }
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Asks a seized thread to stop, whatever it does: [`wait`] will report it. A call that it sleeps in begins anew afterwards.
///
/// # Errors
/// Those of `PTRACE_INTERRUPT`.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Detaches from a stopped thread, which runs on, and delivers `signal` (0: none).
pub fn detach(tid: Tid, signal: i32) {
    let _ = request(libc::PTRACE_DETACH, tid, 0, signal as usize);
}

/// Lets a thread run on until its call returns or begins, and delivers `signal` (0: none).
pub fn resume_to_exit(tid: Tid, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL, tid, 0, signal as usize);
}

/// Leaves a thread in its group stop; its end is still reported.
pub fn listen(tid: Tid) {
    let _ = request(libc::PTRACE_LISTEN, tid, 0, 0);
}

/// Returns the number that an event carries: the new thread, or the former one at exec.
///
/// # Errors
/// Those of `PTRACE_GETEVENTMSG`.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message)
}

/// Returns the registers of a stopped thread.
///
/// # Errors
/// Those of `PTRACE_GETREGS`.
pub fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Skips the call at whose entry a thread is stopped: the call returns `result`.
///
/// # Errors
/// Those of reading and writing registers.
pub fn pass_over(tid: Tid, result: i64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = u64::MAX;
    registers.rax = result as u64;
    request(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize)
}

/// Replaces the call at whose entry a thread is stopped by another one with the same arguments.
///
/// # Errors
/// Those of reading and writing registers.
pub fn call_instead(tid: Tid, number: i64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = number as u64;
    request(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize)
}

/// Sets or clears the flag `CLONE_UNTRACED` of the clone that a stopped thread is in. (`clone3` has it
/// in memory, at the address that the register holds.)
///
/// # Errors
/// Those of reading and writing registers and memory.
pub fn set_untraced(tid: Tid, on: bool) -> io::Result<()> {
    const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
    let with = |flags: u64| {
        if on {
            flags | UNTRACED
        } else {
            flags & !UNTRACED
        }
    };
    let narrow = is_i386(tid);
    let mut registers = registers(tid)?;
    let first = match narrow {
        true => &mut registers.rbx,
        false => &mut registers.rdi,
    };
    if registers.orig_rax as i64 == libc::SYS_clone3 {
        let flags = with(memory::read_word(tid, *first)?);
        return request(libc::PTRACE_POKEDATA, tid, *first as usize, flags as usize);
    }
    *first = with(*first);
    request(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize)
}

/// The point of a call at which a thread is stopped (`PTRACE_GET_SYSCALL_INFO`).
#[derive(Debug, Clone, Copy)]
pub enum CallPoint {
    /// Before the call, as [`resume_to_exit`] stops it.
    Entry {
        /// The number of the call in its table.
        nr: u64,
        /// Its arguments.
        args: [u64; 6],
    },
    /// Before the call, stopped by a seccomp filter.
    Filtered {
        /// The number of the call in its table.
        nr: u64,
        /// Its arguments.
        args: [u64; 6],
        /// The data that the filter returned with its decision.
        data: u32,
    },
    /// Elsewhere: at the return of a call, or outside of calls.
    Other,
}

/// Returns the table that a stopped thread's calls come from (`AUDIT_ARCH_*`), and where in a call the
/// thread is stopped.
///
/// # Errors
/// Those of `PTRACE_GET_SYSCALL_INFO`.
pub fn call_point(tid: Tid) -> io::Result<(u32, CallPoint)> {
    let information = information(tid)?;
    let point = match information.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` says which member of the union the kernel filled.
            let call = unsafe { information.u.entry };
            CallPoint::Entry {
                nr: call.nr,
                args: call.args,
            }
        }
        libc::PTRACE_SYSCALL_INFO_SECCOMP => {
            // SAFETY: `op` says which member of the union the kernel filled.
            let call = unsafe { information.u.seccomp };
            CallPoint::Filtered {
                nr: call.nr,
                args: call.args,
                data: call.ret_data,
            }
        }
        _ => CallPoint::Other,
    };
    Ok((information.arch, point))
}

fn information(tid: Tid) -> io::Result<libc::ptrace_syscall_info> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut information: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
    request(
        libc::PTRACE_GET_SYSCALL_INFO,
        tid,
        size_of_val(&information),
        &raw mut information as usize,
    )?;
    Ok(information)
}

/// Returns `true` if the call that a thread is in comes from the table of i386.
pub fn is_i386(tid: Tid) -> bool {
    information(tid).is_ok_and(|information| information.arch == AUDIT_ARCH_I386)
}

/// Returns the result of a call that returns: the value, or minus the error number.
///
/// # Errors
/// Those of `PTRACE_GET_SYSCALL_INFO`; `InvalidData` for a thread that is stopped elsewhere.
pub fn result(tid: Tid) -> io::Result<i64> {
    let information = information(tid)?;
    if information.op != libc::PTRACE_SYSCALL_INFO_EXIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: `op` says which member of the union the kernel filled.
    let returned = unsafe { information.u.exit }.sval;
    if information.arch != AUDIT_ARCH_I386 {
        return Ok(returned);
    }
    // Of these calls only 32 bits are told there, with a sign. Addresses above 2 GiB have none, and the end of a heap may have more.
    Ok(registers(tid)?.rax as i64)
}

/// Attaches to a running thread, without stopping it. Threads that it starts are not followed, and it
/// lives on when this program ends.
///
/// # Errors
/// Those of `PTRACE_SEIZE`.
pub fn seize_alone(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

/// Returns a set of registers of a stopped thread (`NT_*`), as core files have them.
///
/// # Errors
/// Those of `PTRACE_GETREGSET`.
pub fn register_set(tid: Tid, kind: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; 16 << 10];
    let mut place = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    request(
        libc::PTRACE_GETREGSET,
        tid,
        kind as usize,
        &raw mut place as usize,
    )?;
    bytes.truncate(place.iov_len);
    Ok(bytes)
}

/// Returns the `siginfo_t` of the signal that a thread has stopped for, as bytes.
///
/// # Errors
/// Those of `PTRACE_GETSIGINFO`.
pub fn signal_information(tid: Tid) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; size_of::<libc::siginfo_t>()];
    request(libc::PTRACE_GETSIGINFO, tid, 0, bytes.as_mut_ptr() as usize)?;
    Ok(bytes)
}

/// Returns `true` if the stop may report [a failed access](accessed_in_vain).
pub fn tells_of_accesses(stop: Stop) -> bool {
    matches!(stop, Stop::Signal(libc::SIGBUS | libc::SIGSEGV))
}

/// Returns the address of a failed access, if the signal that a thread has stopped for reports one: nothing
/// is behind the mapping (`SIGBUS`), or nothing is mapped (`SIGSEGV`).
pub fn accessed_in_vain(tid: Tid) -> Option<u64> {
    const BUS_ADRERR: i32 = 2;
    const SEGV_MAPERR: i32 = 1;
    // SAFETY: all zeros is a valid value of this structure of integers.
    let mut information: libc::siginfo_t = unsafe { mem::zeroed() };
    request(
        libc::PTRACE_GETSIGINFO,
        tid,
        0,
        &raw mut information as usize,
    )
    .ok()?;
    let told = matches!(
        (information.si_signo, information.si_code),
        (libc::SIGBUS, BUS_ADRERR) | (libc::SIGSEGV, SEGV_MAPERR)
    );
    // SAFETY: such a signal comes with an address.
    told.then(|| unsafe { information.si_addr() } as u64)
}
