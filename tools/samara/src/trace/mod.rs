//! `samara trace`: a real program runs, and every call on its memory is performed on the engine too.
//!
//! ```text
//! launch ─→ events ─→ space ─→ follow (engine) ─→ compare
//!             │         ├─→ facts, proc, seeding (what only the kernel knows)
//!             ├─→ decode ─→ files ─→ opened
//!             └─→ ptrace, filter
//! ```

mod decode;
mod events;
mod exec;
mod facts;
mod files;
mod filter;
mod interrupts;
mod launch;
mod opened;
mod options;
mod proc;
mod progress;
mod ptrace;
mod samples;
mod seeding;
mod session;
mod space;
mod streams;

use std::fs;
use std::path::Path;

use samara_mm::KernelVersion;

use crate::outcome::{MISUSE, complain, same_file};
use crate::record::Writer;
use crate::report::{self, Subject};
use crate::tally::Verdict;

use events::{Ending, Failure, Tracer};
pub(crate) use options::TraceOptions;
use session::Session;
pub(crate) use session::say;

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &TraceOptions) -> i32 {
    let Some(name) = options.program.first() else {
        return complain("no program given; name one after `--`");
    };
    let path = match launch::find(name) {
        Ok(path) => path,
        Err(refusal) => return complain(&refusal.0),
    };
    let words: Vec<String> = options
        .program
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let (Some(json), Some(record)) = (&options.json, &options.record)
        && same_file(json, record)
    {
        return complain("--json and --record name one file: give each its own");
    }
    // Files that cannot be written are told before the program runs, not after.
    let json = match options.json.as_deref().map(report::create).transpose() {
        Ok(json) => json,
        Err(text) => return complain(&text),
    };
    // Else the numbers of processes there would be others', and the maps of strangers be compared.
    let own = fs::read_link("/proc/self").ok();
    if own.as_deref() != Some(Path::new(&std::process::id().to_string())) {
        return complain(
            "/proc is missing, or shows another PID namespace: mount it with `mount -t proc proc /proc`",
        );
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = kernel.parse().unwrap_or_default();
    if !KernelVersion::is_known(version) {
        say(&format!(
            "samara: the engine was never compared with Linux {version} (but with {} to {}): it follows the nearest rules",
            KernelVersion::OLDEST,
            KernelVersion::NEWEST
        ));
    }
    let record = match &options.record {
        None => None,
        Some(file) => match Writer::create(file, &words, kernel.trim()) {
            Ok(writer) => Some(writer),
            Err(error) => {
                return complain(&format!(
                    "`{}` cannot be written: {error}; give --record another file",
                    file.display()
                ));
            }
        },
    };

    let mut launched = match launch::launch(&path, &options.program, streams::closed_at_start()) {
        Ok(launched) => launched,
        Err(error) => return complain(&format!("`{}` cannot be traced: {error}", path.display())),
    };
    interrupts::take_signals(launched.tid);
    let mut session = Session::new(options, version, record);
    let begun = std::time::Instant::now();
    let ending = match Tracer::new(launched.tid, &mut session).run() {
        Ok(ending) => ending,
        Err(Failure::NotStarted) => return complain(&launched.failure(&path).0),
        Err(Failure::OtherMachine(what)) => {
            return complain(&format!(
                "`{}` starts {what}: only 64-bit x86-64 programs can be traced; use a 64-bit build of it",
                path.display()
            ));
        }
        Err(Failure::Kernel(error)) => {
            return complain(&format!("waiting for traced processes failed: {error}"));
        }
    };
    let elapsed = begun.elapsed();

    let (code, signal) = match ending {
        Ending::Code(code) => (code, 0),
        Ending::Signal { number, .. } => (128 + number, number),
    };
    let mut misuse = false;
    let mut recorded = None;
    if let Some(record) = session.record.take() {
        match record.finish(code, signal, &session.tally) {
            Ok(bytes) => recorded = Some(bytes),
            Err(error) => {
                complain(&format!("the record is incomplete: {error}"));
                misuse = true;
            }
        }
    }
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
    let subject = Subject {
        words: &words,
        kernel: kernel.trim(),
        exit_code: Some(code),
        signal: (signal != 0).then_some(signal),
        elapsed,
        recorded,
        replay: None,
    };
    if !options.quiet || session.tally.verdict() != Verdict::Agreed {
        say(report::text(&subject, &session.tally).trim_end());
    }
    if let Some(file) = json
        && let Err(text) = report::write_json(file, &subject, &session.tally)
    {
        complain(&text);
        misuse = true;
    }
    match session.tally.verdict().exit_code() {
        0 if misuse => MISUSE,
        0 => code,
        told => told,
    }
}

/// `signal 11 (SIGSEGV)`.
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
