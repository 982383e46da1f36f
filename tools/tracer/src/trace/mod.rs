//! Runs a real program, and performs every call on its memory on the engine, too.
//!
//! ```text
//! launch ─┬→ events ─→ space ─→ follow (engine) ─→ compare
//! attach ─┘   │         ├─→ seeding (the state that /proc shows)
//!             ├─→ decode ─→ files ─→ opened
//!             └─→ entry, filter
//! ```

mod attach;
mod by_tid;
mod child;
mod decode;
mod entry;
mod events;
mod exec;
mod faulting;
mod files;
mod filter;
mod i386;
mod interrupts;
mod launch;
mod making;
mod opened;
mod samples;
mod seeding;
mod segments;
mod session;
mod shortly;
mod space;
mod watchers;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use samara_conformance::seed::Seed;
use samara_linux::Tid;
use samara_linux::maps::{Map, MapsFile};

use crate::quantity::number_of;
use crate::tell::say;

pub use attach::words;
pub use events::Ending;
use events::{Failure, Tracer};
pub(crate) use filter::SYS_SET_MEMPOLICY_HOME_NODE;
pub(crate) use launch::more_descriptors;
pub use launch::{Refusal, find};
pub(crate) use seeding::Machine;
use seeding::{Asked, Moment};
pub use session::{Progress, Session, Settings, Verify};

/// The end of a trace.
pub struct Traced {
    /// The program's end.
    pub ending: Ending,
    /// The duration of the trace.
    pub elapsed: Duration,
}

/// Starts a program, the file at `path` with these arguments, and traces it until the last of its
/// processes has ended.
///
/// # Errors
/// The reason for which it cannot be traced.
pub fn trace_program(
    path: &Path,
    program: &[OsString],
    session: &mut Session,
) -> Result<Traced, Refusal> {
    let mut launched = launch::launch(path, program, crate::streams::closed_at_start())
        .map_err(|error| Refusal(format!("`{}` cannot be traced: {error}", path.display())))?;
    interrupts::take_signals(launched.tid);
    // This happens while the program is about to start.
    LazyCell::force(&session.machine);
    let begun = Instant::now();
    let ending = match Tracer::new(launched.tid, session).run() {
        Ok(ending) => ending,
        Err(Failure::NotStarted) => return Err(launched.failure(path)),
        Err(Failure::OtherMachine(what)) => {
            return Err(Refusal(format!(
                "`{}` starts {what}: only programs for x86-64 and i386 can be traced",
                path.display()
            )));
        }
        Err(failure) => return Err(failed(&failure)),
    };
    let elapsed = begun.elapsed();
    if let Ending::Signal { number, core } = ending {
        let dumped = if core { ", and dumped its core" } else { "" };
        say(&format!(
            "samara: `{}` was killed by {}{dumped}",
            path.display(),
            signal_name(number)
        ));
    }
    if launched.no_new_privileges {
        say(
            "samara: without CAP_SYS_ADMIN, set-user-ID programs run without their privileges (no_new_privs)",
        );
    }
    Ok(Traced { ending, elapsed })
}

/// Attaches to a process, and traces it until it ends or is let go. Prints a line about that unless
/// `quiet`.
///
/// # Errors
/// The reason for which it cannot be traced.
pub fn trace_process(process: Tid, quiet: bool, session: &mut Session) -> Result<Traced, Refusal> {
    launch::more_descriptors();
    interrupts::take_signals(interrupts::NOBODY);
    let begun = Instant::now();
    let attached = attach::attach(process)?;
    let tracer = Tracer::attached_to(&attached, session);
    if !quiet {
        let threads = number_of(attached.threads.len() as u64, "thread");
        say(&format!(
            "samara: attached to process {} with {threads}; Ctrl-C lets it go",
            attached.process
        ));
    }
    let ending = tracer.run().map_err(|failure| failed(&failure))?;
    Ok(Traced {
        ending,
        elapsed: begun.elapsed(),
    })
}

fn failed(failure: &Failure) -> Refusal {
    Refusal(match failure {
        Failure::Kernel(error) => format!("waiting for traced processes failed: {error}"),
        Failure::NotStarted | Failure::OtherMachine(_) => "nothing was traced".to_owned(),
    })
}

/// Reads the map of a process.
pub(crate) fn read_map(process: Tid, map: &mut Map) -> io::Result<()> {
    MapsFile::open(process)?.read(map)
}

/// Reads the state of a process that waits.
pub(crate) fn seed_of(process: Tid, machine: &Machine) -> io::Result<Seed> {
    let mut map = Map::default();
    read_map(process, &mut map)?;
    let mut pagemap = samara_linux::pagemap::Pagemap::open(process)?;
    let asked = Asked::of(process);
    seeding::seed(
        process,
        &asked,
        machine,
        &map,
        &mut pagemap,
        Moment::Found,
        &mut 0,
    )
}

/// Returns the start of a process's heap.
pub(crate) fn start_of_heap(process: Tid) -> io::Result<u64> {
    Ok(samara_linux::proc::layout(process)?.start_brk)
}

/// Describes a signal: `signal 11 (SIGSEGV)`.
fn signal_name(number: i32) -> String {
    const NAMES: [&str; 32] = [
        "",
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    match usize::try_from(number).ok().and_then(|n| NAMES.get(n)) {
        Some(name) if !name.is_empty() => format!("signal {number} ({name})"),
        _ => format!("signal {number}"),
    }
}
