//! Attaches to a running process. All its threads are stopped at one moment, and held until its
//! address space has been read.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use samara_linux::Tid;
use samara_linux::living::Living;
use samara_linux::proc;
use samara_linux::ptrace::{self, Pace, Stop};

use super::interrupts;
use super::launch::{self, Refusal};
use crate::tell::say;

/// A process of which all threads are stopped.
pub(crate) struct Attached {
    pub(crate) process: Tid,
    /// Each thread, and the stop that it is in, which is not answered yet.
    pub(crate) threads: Vec<(Tid, Stop)>,
}

/// The outcome of stopping one thread.
enum Caught {
    Stopped(Stop),
    /// It has ended.
    Gone,
    /// It cannot be attached to, for this reason.
    Refused(io::Error),
    /// A signal asks this program to end.
    Interrupted,
}

/// Attaches to all threads of a process. `named` may be any of them.
pub(crate) fn attach(named: Tid) -> Result<Attached, Refusal> {
    let living = Living::of(named);
    let process = living.process();
    living.ask(|tid| examine(process, tid))?;
    let mut threads: Vec<(Tid, Stop)> = Vec::new();
    let mut gone: Vec<Tid> = Vec::new();
    // Threads that were not stopped yet may have made more.
    loop {
        let listed = proc::threads(process).unwrap_or_default();
        let known = |tid: &Tid| gone.contains(tid) || threads.iter().any(|held| held.0 == *tid);
        let fresh: Vec<Tid> = listed.into_iter().filter(|tid| !known(tid)).collect();
        if fresh.is_empty() {
            break;
        }
        for tid in fresh {
            let refusal = match catch(tid) {
                Caught::Stopped(stop) => {
                    threads.push((tid, stop));
                    continue;
                }
                Caught::Gone => {
                    gone.push(tid);
                    continue;
                }
                Caught::Refused(error) => refused(process, &error),
                Caught::Interrupted => Refusal("interrupted before anything was traced".into()),
            };
            for (tid, stop) in threads {
                ptrace::detach(tid, stop.signal());
            }
            return Err(refusal);
        }
    }
    if threads.is_empty() {
        return Err(no_such(process));
    }
    Ok(Attached { process, threads })
}

/// Attaches to a thread and stops it.
fn catch(tid: Tid) -> Caught {
    if let Err(error) = ptrace::seize(tid, Pace::EveryCall) {
        match proc::condition(tid) {
            // One of the attached threads has made this one since.
            Ok(condition) if condition.tracer == std::process::id() as Tid => {}
            Ok(condition) if !matches!(condition.state, 'Z' | 'X') => {
                return Caught::Refused(error);
            }
            _ => return Caught::Gone,
        }
    }
    if ptrace::interrupt(tid).is_err() && ptrace::wait(tid, true).is_err() {
        return Caught::Gone;
    }
    let mut patient = false;
    loop {
        match ptrace::wait(tid, !patient) {
            Ok(Some((_, Stop::Exited(_) | Stop::Killed { .. }))) | Err(_) => return Caught::Gone,
            Ok(Some((_, stop))) => return Caught::Stopped(stop),
            Ok(None) if interrupts::arrived() => return Caught::Interrupted,
            Ok(None) if !patient => {
                patient = true;
                tell_if_it_cannot_stop(tid);
            }
            Ok(None) => {}
        }
    }
}

/// Prints a line if the thread sleeps in a wait that only a deadly signal ends. It cannot be
/// stopped before that wait ends.
fn tell_if_it_cannot_stop(tid: Tid) {
    const USUAL: Duration = Duration::from_millis(200);
    let waits = || proc::condition(tid).is_ok_and(|condition| condition.state == 'D');
    if !waits() {
        return;
    }
    thread::sleep(USUAL);
    if waits() && !interrupts::arrived() {
        say(&format!(
            "samara: thread {tid} cannot be stopped yet, as in vfork before the child continues: waiting; Ctrl-C gives up"
        ));
    }
}

fn no_such(process: Tid) -> Refusal {
    Refusal(format!(
        "there is no process {process}: `ps` lists the running ones"
    ))
}

/// Refuses, in words, a process that could not be traced. `tid` is one of its threads.
fn examine(process: Tid, tid: Tid) -> Result<(), Refusal> {
    let condition = proc::condition(tid).map_err(|_| no_such(process))?;
    if process == std::process::id() as Tid {
        return Err(Refusal(format!(
            "{process} is this process itself: name another"
        )));
    }
    if matches!(condition.state, 'Z' | 'X') {
        return Err(Refusal(format!(
            "process {process} has ended, and its parent has not waited for it yet: there is nothing to trace"
        )));
    }
    if condition.tracer != 0 {
        return Err(Refusal(format!(
            "process {process} is traced already, by process {}: only one tracer is possible",
            condition.tracer
        )));
    }
    let program = format!("/proc/{tid}/exe");
    match fs::read_link(&program) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Refusal(format!(
                "process {process} is a thread of the kernel: it has no memory to trace"
            )));
        }
        _ => {}
    }
    let mut head = [0; 20];
    if launch::read_head(tid, &mut head).is_some() {
        launch::refuse_other_machines(&head).map_err(|what| {
            Refusal(format!(
                "process {process} runs {what}: only 64-bit x86-64 programs can be traced"
            ))
        })?;
    }
    Ok(())
}

/// Returns the reason why the kernel did not let this process attach.
fn refused(process: Tid, error: &io::Error) -> Refusal {
    if error.raw_os_error() == Some(libc::ESRCH) {
        return no_such(process);
    }
    Refusal(format!(
        "process {process} cannot be attached to ({error}): {}",
        Asking::look(process).advice()
    ))
}

/// The facts that decide if this process may attach to another, as far as they can be read.
#[derive(Debug, Clone, Copy)]
struct Asking {
    /// This process runs as root.
    root: bool,
    /// `CAP_SYS_PTRACE`.
    capable: bool,
    /// The other process belongs to this one's user.
    own: bool,
    /// This process is in the outermost user namespace, as far as it knows.
    outermost: bool,
    /// A seccomp filter is on this process.
    filtered: bool,
    /// `kernel.yama.ptrace_scope`, or 0 without Yama.
    scope: u64,
}

impl Asking {
    fn look(process: Tid) -> Self {
        const SYS_PTRACE: u32 = 19;
        // SAFETY: the call takes nothing and returns a number.
        let own = unsafe { libc::geteuid() };
        let user = proc::condition(process).map_or(0, |condition| condition.user);
        let map =
            samara_linux::proc_file::read_text_piece("/proc/self/uid_map").unwrap_or_default();
        let status = samara_linux::proc_file::read_text("/proc/self/status").unwrap_or_default();
        Self {
            root: own == 0,
            capable: proc::capabilities(0).is_ok_and(|held| held >> SYS_PTRACE & 1 == 1),
            own: user == own,
            // Only there are all users mapped, each to itself.
            outermost: map.split_ascii_whitespace().eq(["0", "0", "4294967295"]),
            filtered: status.contains("\nSeccomp:\t2"),
            scope: proc::sysctl("kernel/yama/ptrace_scope", 0),
        }
    }

    /// Returns the obstacle to attaching, and how to remove it.
    fn advice(self) -> &'static str {
        match self {
            Asking { scope: 3, .. } => {
                "/proc/sys/kernel/yama/ptrace_scope is 3: nothing can be attached to until the next boot"
            }
            Asking {
                root: false,
                own: false,
                ..
            } => "it belongs to another user: run this as that user, or as root",
            Asking {
                capable: false,
                root: true,
                ..
            } => {
                "this is root without CAP_SYS_PTRACE, as in a container: give it that (docker: --cap-add SYS_PTRACE), or run this outside"
            }
            Asking {
                scope: 1,
                capable: false,
                ..
            } => {
                "/proc/sys/kernel/yama/ptrace_scope is 1, so that only descendants may be traced: set it to 0, or run this as root"
            }
            Asking {
                scope: 2,
                capable: false,
                ..
            } => "/proc/sys/kernel/yama/ptrace_scope is 2: run this as root",
            Asking { capable: false, .. } => {
                "it has privileges that this process lacks, or may not be dumped: run this as root"
            }
            Asking {
                outermost: false, ..
            } => {
                "CAP_SYS_PTRACE counts only within this user namespace, and that process is not in it: run this outside"
            }
            Asking { filtered: true, .. } => {
                "this process has CAP_SYS_PTRACE, but its seccomp filter, as in a container, or a security module forbids it: run this outside"
            }
            Asking { .. } => {
                "this process has CAP_SYS_PTRACE, but a security module (AppArmor, SELinux) or the kernel itself protects the other one: the kernel's log may say why"
            }
        }
    }
}

/// Returns the program and the arguments of a process.
pub fn words(process: Tid) -> Vec<String> {
    let read = |tid| samara_linux::proc_file::read(format!("/proc/{tid}/cmdline"));
    let text = Living::of(process).ask(read).unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    text.split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advice never asks for what the process has already.
    #[test]
    fn advice_fits_the_process() {
        let root = Asking {
            root: true,
            capable: true,
            own: true,
            outermost: true,
            filtered: false,
            scope: 0,
        };
        for scope in 0..4 {
            for bits in 0..16 {
                let on = |bit: u32| bits >> bit & 1 == 1;
                let asking = Asking {
                    capable: on(0),
                    own: on(1),
                    outermost: on(2),
                    filtered: on(3),
                    scope,
                    ..root
                };
                let advice = asking.advice();
                assert!(!advice.contains("as root"), "{asking:?}: {advice}");
                assert_eq!(
                    advice.contains("without CAP_SYS_PTRACE"),
                    !on(0) && scope < 3,
                    "{asking:?}"
                );
            }
        }
        let inner = Asking {
            outermost: false,
            ..root
        };
        assert!(inner.advice().contains("user namespace"));
        let user = Asking {
            root: false,
            capable: false,
            ..root
        };
        assert!(user.advice().contains("run this as root"));
        let yama = Asking { scope: 1, ..user };
        assert!(yama.advice().contains("ptrace_scope is 1"));
        let other = Asking { own: false, ..yama };
        assert!(other.advice().contains("another user"));
    }
}
