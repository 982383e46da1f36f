//! Processes and threads: state, relations, limits, the layout of a new program, namespaces.

mod limits;
mod namespaces;

use std::fs;
use std::io;

use crate::{Tid, proc_file};

pub use limits::{RawLimits, limits};
pub use namespaces::{named_by, open_below};

/// Numbers that exec sets and that maps does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramLayout {
    /// The address at which the heap begins.
    pub start_brk: u64,
    /// The stack pointer's first value.
    pub start_stack: u64,
    /// The size of the initialised data in bytes.
    pub data_size: u64,
    /// The range of the arguments: start and end.
    pub arguments: (u64, u64),
    /// The range of the environment: start and end.
    pub environment: (u64, u64),
}

/// Returns them from `/proc/PID/stat` (proc_pid_stat(5)): fields 28 and 45 to 51.
///
/// # Errors
/// Those of reading.
pub fn layout(tid: Tid) -> io::Result<ProgramLayout> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/stat"))?;
    // The name, field 2, may hold anything, parentheses too: count from behind it.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let mut fields = after.split_ascii_whitespace();
    let mut field = |number: usize, passed: usize| -> u64 {
        fields
            .nth(number - passed - 1)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let start_stack = field(28, 2);
    let start_data = field(45, 28);
    let end_data = field(46, 45);
    let start_brk = field(47, 46);
    let arguments = (field(48, 47), field(49, 48));
    let environment = (field(50, 49), field(51, 50));
    Ok(ProgramLayout {
        start_brk,
        start_stack,
        data_size: end_data.saturating_sub(start_data),
        arguments,
        environment,
    })
}

/// Returns the auxiliary vector (getauxval(3)): keys and values.
///
/// # Errors
/// Those of reading.
pub fn auxiliary_vector(tid: Tid) -> io::Result<Vec<(u64, u64)>> {
    let bytes = proc_file::read_piece(format!("/proc/{tid}/auxv"))?;
    // In a vector of 32-bit words the first value, an address, is where the upper half of the first key would be.
    let half = |word: &[u8]| word.try_into().map_or(0, u32::from_ne_bytes);
    if bytes.get(4..8).is_some_and(|upper| half(upper) != 0) {
        let entries = bytes.chunks_exact(8);
        return Ok(entries
            .map(|entry| (half(&entry[..4]).into(), half(&entry[4..]).into()))
            .collect());
    }
    let word = |word: &[u8]| word.try_into().map_or(0, u64::from_ne_bytes);
    let entries = bytes.chunks_exact(16);
    Ok(entries
        .map(|entry| (word(&entry[..8]), word(&entry[8..])))
        .collect())
}

/// Returns the effective capabilities, as a bit set (capabilities(7)), of a thread or of the caller (0).
///
/// `/proc/PID/status` has them, too, among much that the kernel must collect first.
///
/// # Errors
/// Those of `capget(2)`.
pub fn capabilities(tid: Tid) -> io::Result<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header: [u32; 2] = [VERSION_3, tid as u32];
    // Effective, permitted and inheritable ones, of which each has 32; then the other 32.
    let mut sets = [0u32; 6];
    // SAFETY: `header` and `sets` are what this version of the call takes.
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(sets[3]) << 32 | u64::from(sets[0]))
}

/// Returns how many seccomp filters a thread has.
///
/// # Errors
/// Those of reading; `InvalidData` where the kernel does not tell.
pub fn filters(tid: Tid) -> io::Result<u64> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    status_field(&status, "Seccomp_filters:")
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns `true` if pages of all areas are merged by their contents (`PR_SET_MEMORY_MERGE`). Older
/// kernels do not tell.
pub fn merges_any(tid: Tid) -> Option<bool> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/ksm_stat")).ok()?;
    let told = text
        .lines()
        .find_map(|line| line.strip_prefix("ksm_merge_any:"))?;
    Some(told.trim() == "yes")
}

/// Returns `true` if the thread is in the first user namespace. Only there do privileges concern memory.
pub fn in_first_user_namespace(tid: Tid) -> bool {
    // The kernel gives this one a number of its own.
    const FIRST: &str = "user:[4026531837]";
    fs::read_link(format!("/proc/{tid}/ns/user")).map_or(true, |link| link.as_os_str() == FIRST)
}

/// Returns the process that a descriptor of a thread stands for (`pidfd_open(2)`).
pub fn process_of(tid: Tid, descriptor: i32) -> Option<Tid> {
    let info = proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    status_field(&info, "Pid:")?.parse().ok()
}

/// Returns the process that a thread belongs to, and that process's parent.
///
/// # Errors
/// Those of reading.
pub fn family(tid: Tid) -> io::Result<(Tid, Tid)> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    let number = |name| {
        status_field(&status, name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    Ok((number("Tgid:"), number("PPid:")))
}

/// Returns `true` if two threads have one address space.
pub fn is_same_memory(one: Tid, other: Tid) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: takes integers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    order == 0
}

/// Returns `true` if a process, by its first thread, has the address space of this thread.
pub fn shares_memory(tid: Tid, process: Tid) -> bool {
    const KCMP_VM: libc::c_int = 1;
    let of = |tid| family(tid).ok().map(|(process, _)| process);
    if of(process) != Some(process) {
        return false;
    }
    // SAFETY: takes integers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, tid, process, KCMP_VM, 0, 0) };
    match order {
        // The kernel was built without it, or one of them has ended.
        -1 => of(tid) == Some(process),
        order => order == 0,
    }
}

/// Returns the threads of a process.
///
/// # Errors
/// Those of listing them.
pub fn threads(process: Tid) -> io::Result<Vec<Tid>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        threads.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|tid| tid.parse::<Tid>().ok()),
        );
    }
    Ok(threads)
}

/// The part of `/proc/PID/status` that tells how a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The thread's tracer; 0 for none.
    pub tracer: Tid,
    /// The process that the thread belongs to.
    pub process: Tid,
    /// The real user.
    pub user: u32,
    /// The letter of its state (proc_pid_stat(5)).
    pub state: char,
}

/// Returns it for a thread.
///
/// # Errors
/// Those of reading.
pub fn condition(tid: Tid) -> io::Result<Condition> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    let number = |name| {
        let field = status_field(&status, name)?;
        field.split_ascii_whitespace().next()?.parse::<u32>().ok()
    };
    Ok(Condition {
        tracer: number("TracerPid:").unwrap_or(0) as Tid,
        process: number("Tgid:").unwrap_or(0) as Tid,
        user: number("Uid:").unwrap_or(0),
        state: status_field(&status, "State:")
            .and_then(|text| text.chars().next())
            .unwrap_or('?'),
    })
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Returns `true` if a thread runs or is ready to run: it neither sleeps nor is stopped.
pub fn is_running(tid: Tid) -> bool {
    stat_of(tid).is_some_and(|stat| stat.state == b'R')
}

/// Returns `true` if a thread is gone, or only its number is left.
pub fn is_dead(tid: Tid) -> bool {
    stat_of(tid).is_none_or(|stat| matches!(stat.state, b'Z' | b'X'))
}

/// The part of proc_pid_stat(5) that tells whether a thread runs.
#[derive(Debug, Clone, Copy)]
pub struct ThreadStat {
    /// The letter of its state.
    pub state: u8,
    /// The ticks for which it has run, in the kernel or not.
    pub ran: u64,
}

/// Returns it for the thread alone; `None` if the thread is gone.
pub fn stat_of(tid: Tid) -> Option<ThreadStat> {
    // In the other such file the kernel sums up all threads of the process.
    let text = proc_file::read_text_piece(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
    // Behind the name, which may hold parentheses: the third field and those that follow it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.bytes().next()?;
    let mut ticks = fields.skip(10).map(|field| field.parse::<u64>().ok());
    Some(ThreadStat {
        state,
        ran: ticks.next()?? + ticks.next()??,
    })
}

/// Returns the call that a thread is stopped or sleeps in (proc_pid_syscall(5)); `None` for one that
/// runs, or waits within a page fault.
pub fn call_of(tid: Tid) -> Option<libc::c_long> {
    // Its number comes first.
    let text = proc_file::read_text_piece(format!("/proc/{tid}/syscall")).unwrap_or_default();
    let number = text.split(' ').next().and_then(|word| word.parse().ok());
    number.filter(|number| *number >= 0)
}

/// Returns the `personality(2)` of a process.
///
/// # Errors
/// Those of reading.
pub fn personality(tid: Tid) -> io::Result<u64> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/personality"))?;
    Ok(u64::from_str_radix(text.trim(), 16).unwrap_or(0))
}

/// Returns a number of `/proc/sys`, or `other` where it is missing.
pub fn sysctl(name: &str, other: u64) -> u64 {
    proc_file::read_text_piece(format!("/proc/sys/{name}"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_calls_agree() {
        let own = std::process::id() as Tid;
        assert_eq!(family(own).unwrap().0, own);
        let status = proc_file::read_text("/proc/self/status").unwrap();
        let listed = status_field(&status, "CapEff:").unwrap();
        let asked = capabilities(own).unwrap();
        assert_eq!(u64::from_str_radix(listed, 16), Ok(asked));
        assert_eq!(capabilities(0).unwrap(), asked);
    }
}
