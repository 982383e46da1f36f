//! `ptrace(2)` and `waitpid(2)`: the few operations that the tracer needs, behind safe functions.

use std::io;
use std::mem;

use super::filter::{AUDIT_ARCH_I386, Filter, mark};
use super::i386;
use super::memory;

/// A thread, by the kernel's number of it.
pub(crate) type Tid = libc::pid_t;

/// What `waitpid` reported of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The filter stopped a call at its entry.
    Seccomp,
    /// A call returns, or begins (asked for by [`resume_to_exit`]).
    Call,
    Fork,
    Vfork,
    Clone,
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
        signal: i32,
        core: bool,
    },
    /// An event of no interest.
    Other,
}

impl Stop {
    /// The signal that the thread would get if nobody traced it; 0: none.
    pub(crate) fn signal(self) -> i32 {
        match self {
            Stop::Signal(signal) => signal,
            _ => 0,
        }
    }
}

/// Waits for any tracee. `Ok(None)`: a signal arrived for the tracer itself.
pub(crate) fn wait(tid: Tid, poll: bool) -> io::Result<Option<(Tid, Stop)>> {
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
    /// Does it tell of the end of a thread?
    pub(crate) const fn ends(self) -> bool {
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

/// How the calls of interest of a traced thread are made to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A filter stops them; everything else runs at full speed.
    Filtered,
    /// Every call stops, at its entry and at its return: no filter can be put on a process from outside.
    EveryCall,
    /// Whoever stops stays so: the tracer is about to leave.
    Hold,
}

impl Pace {
    /// Lets a thread run on, delivering `signal` (0: none).
    ///
    /// A thread that has been killed in the meantime is no error: its end will be reported by [`wait`].
    pub(crate) fn go(self, tid: Tid, signal: i32) {
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
pub(crate) fn seize(tid: Tid, pace: Pace) -> io::Result<()> {
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
pub(crate) fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets go of a stopped thread, which runs on by itself, delivering `signal` (0: none).
pub(crate) fn detach(tid: Tid, signal: i32) {
    let _ = request(libc::PTRACE_DETACH, tid, 0, signal as usize);
}

/// Lets a thread run on into its call, to stop when the call returns; delivers `signal` (0: none).
pub(crate) fn resume_to_exit(tid: Tid, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL, tid, 0, signal as usize);
}

/// Leaves a thread in its group stop, but watches for its end.
pub(crate) fn listen(tid: Tid) {
    let _ = request(libc::PTRACE_LISTEN, tid, 0, 0);
}

/// The number that an event carries: the new thread, or the former one at exec.
pub(crate) fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message)
}

/// Registers of a stopped thread.
pub(crate) fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Lets a thread that is stopped at the entry of a call pass it over: the call returns `result`.
pub(crate) fn pass_over(tid: Tid, result: i64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = u64::MAX;
    registers.rax = result as u64;
    request(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize)
}

/// Has a thread that is stopped at the entry of a call make another one instead, with the same arguments.
pub(crate) fn call_instead(tid: Tid, number: i64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = number as u64;
    request(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize)
}

/// The call at whose entry a thread is stopped by [`resume_to_exit`], and what a filter would say to it; `None` at its return.
pub(crate) fn entered(tid: Tid, filter: &Filter) -> io::Result<Option<(Entry, bool)>> {
    let information = information(tid)?;
    if information.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return Ok(None);
    }
    // SAFETY: `op` says which member of the union the kernel filled.
    let call = unsafe { information.u.entry };
    let mark = filter.decide(information.arch, call.nr as u32, &call.args);
    let entry = Entry::new(tid, call.nr, call.args, mark.unwrap_or(mark::NONE));
    Ok(Some((entry, mark.is_some())))
}

/// Sets the flag `CLONE_UNTRACED` of the clone that a stopped thread is in, or takes it away. (`clone3` has it in memory, at the
/// address that the register holds.)
pub(crate) fn set_untraced(tid: Tid, on: bool) -> io::Result<()> {
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

/// A call at its entry. What the filter has stopped of the table of i386 has the number and the arguments that it would have in that of x86-64.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) nr: u64,
    pub(crate) args: [u64; 6],
    /// See [`super::filter::mark`].
    pub(crate) mark: u32,
    /// Where the result will be, if the call does not return it.
    pub(crate) result_at: Option<u64>,
}

impl Entry {
    fn new(tid: Tid, nr: u64, args: [u64; 6], mark: u32) -> Self {
        let (nr, args, result_at) = match mark {
            mark::I386 => i386::native(tid, nr, args),
            _ => (nr, args, None),
        };
        Self {
            nr,
            args,
            mark,
            result_at,
        }
    }

    /// Is it a call of the table of i386?
    pub(crate) fn is_i386(&self) -> bool {
        self.mark == mark::I386
    }

    /// One word that a call points to.
    pub(crate) fn read_word(&self, tid: Tid, address: u64) -> io::Result<u64> {
        match self.is_i386() {
            true => memory::read_half(tid, address),
            false => memory::read_word(tid, address),
        }
    }

    /// Bytes in such a word.
    pub(crate) fn word(&self) -> u64 {
        match self.is_i386() {
            true => 4,
            false => 8,
        }
    }
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

/// Does the call that a thread is in come from the table of i386?
pub(crate) fn is_i386(tid: Tid) -> bool {
    information(tid).is_ok_and(|information| information.arch == AUDIT_ARCH_I386)
}

/// The call at which a filter stopped a thread. Where it was not `filter`, since that would have let it run, or said otherwise, the mark is none.
pub(crate) fn entry(tid: Tid, filter: &Filter) -> io::Result<Entry> {
    let information = information(tid)?;
    if information.op != libc::PTRACE_SYSCALL_INFO_SECCOMP {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: `op` says which member of the union the kernel filled.
    let seccomp = unsafe { information.u.seccomp };
    let wanted = filter.decide(information.arch, seccomp.nr as u32, &seccomp.args);
    let mark = mark::read(seccomp.ret_data).filter(|mark| wanted == Some(*mark));
    let mark = mark.unwrap_or(mark::NONE);
    Ok(Entry::new(tid, seccomp.nr, seccomp.args, mark))
}

/// What a call returned: the value, or minus the error number.
pub(crate) fn result(tid: Tid) -> io::Result<i64> {
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

/// Attaches to a running thread, without stopping it; what it starts is not followed, and it lives on when this program ends.
pub(crate) fn seize_alone(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

/// A set of registers of a stopped thread (`NT_*`), as core files have them.
pub(crate) fn register_set(tid: Tid, kind: u32) -> io::Result<Vec<u8>> {
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

/// What a thread was told of the signal that it has stopped for, as bytes.
pub(crate) fn signal_information(tid: Tid) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; size_of::<libc::siginfo_t>()];
    request(libc::PTRACE_GETSIGINFO, tid, 0, bytes.as_mut_ptr() as usize)?;
    Ok(bytes)
}

/// May a thread be told so that [an access was in vain](accessed_in_vain)?
pub(crate) fn tells_of_accesses(stop: Stop) -> bool {
    matches!(stop, Stop::Signal(libc::SIGBUS | libc::SIGSEGV))
}

/// Where an access was in vain, if it was this that the thread is told by a signal: nothing is behind what is mapped (`SIGBUS`), or nothing is mapped
/// (`SIGSEGV`).
pub(crate) fn accessed_in_vain(tid: Tid) -> Option<u64> {
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
