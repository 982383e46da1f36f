//! `samara trace`: a real program runs, and every call on its memory is performed on the engine too.
//!
//! ```text
//! launch ─┬→ events ─→ space ─→ follow (engine) ─→ compare
//! attach ─┘   │         ├─→ seeding (what only the kernel knows)
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
mod options;
mod pictured;
mod progress;
mod samples;
mod seeding;
mod segments;
mod session;
mod shortly;
mod space;
mod watchers;

use std::cell::LazyCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_conformance::seed::Seed;
use samara_conformance::tally::Verdict;
use samara_linux::Tid;
use samara_linux::maps::{Map, MapsFile};
use samara_mm::KernelVersion;

use crate::destination::Destination;
use crate::kernel::Kernel;
use crate::outcome::{MISUSE, complain, distinct, of_verdict};
use crate::quantity::number_of;
use crate::record::Writer;
use crate::report::{self, Subject};

use events::{Ending, Failure, Tracer};
pub(crate) use filter::SYS_SET_MEMPOLICY_HOME_NODE;
use launch::Refusal;
pub(crate) use launch::more_descriptors;
pub(crate) use options::TraceOptions;
use pictured::Pictured;
pub(crate) use seeding::Machine;
use seeding::{Asked, Moment};
use session::Session;
pub(crate) use session::say;

/// Whom to trace.
enum Source {
    Program(PathBuf),
    Process(Tid),
}

/// What was traced, and how it ended.
struct Traced {
    words: Vec<String>,
    ending: Ending,
    elapsed: Duration,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &TraceOptions) -> i32 {
    let source = match (options.pid, options.program.first()) {
        (Some(process), _) => Source::Process(process),
        (None, None) => return complain("no program given; name one after `--`"),
        (None, Some(name)) => match launch::find(name) {
            Ok(path) => Source::Program(path),
            Err(refusal) => return complain(&refusal.0),
        },
    };
    let mut named: Vec<_> = options.pictures.files().collect();
    named.extend(options.json.as_deref().map(|json| ("--json", json)));
    named.extend(options.record.as_deref().map(|record| ("--record", record)));
    if let Err(text) = distinct(&named) {
        return complain(&text);
    }
    // Files that cannot be written are told before the program runs, not after.
    let json = options.json.as_deref();
    let json = json.map(|file| Destination::open("--json", file));
    let json = match json.transpose() {
        Ok(json) => json,
        Err(text) => return complain(&text),
    };
    // Else the numbers of processes there would be others', and the maps of strangers be compared.
    if !samara_linux::proc_file::ours() {
        return complain(samara_linux::proc_file::MISSING);
    }
    let kernel = Kernel::running();
    let version = kernel.version;
    if !KernelVersion::is_known(version) {
        say(&format!(
            "samara: the engine was never compared with Linux {version} (but with {} to {}): it follows the nearest rules",
            KernelVersion::OLDEST,
            KernelVersion::NEWEST
        ));
    }
    let words: Vec<String> = match &source {
        Source::Program(_) => options
            .program
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        Source::Process(process) => attach::words(*process),
    };
    let pictures = match Pictured::prepare(options) {
        Ok(pictures) => pictures,
        Err(text) => return complain(&text),
    };
    let to_record = options.record.as_deref();
    let record = match to_record.or(pictures.as_ref().map(Pictured::record)) {
        None => None,
        Some(file) => match Writer::create(file, &words, &kernel, to_record.is_some()) {
            Ok(writer) => Some(writer),
            Err(error) if to_record.is_none() => {
                return complain(&format!(
                    "the record that the picture is drawn from cannot be kept in memory: {error}; give --record a file for it, or raise `ulimit -f`"
                ));
            }
            Err(error) => {
                return complain(&format!(
                    "`{}` cannot be written: {error}; give --record another file (nothing was started)",
                    file.display()
                ));
            }
        },
    };
    let mut session = Session::new(options, version, record);
    let traced = match &source {
        Source::Program(path) => trace_program(path, options, words, &mut session),
        Source::Process(process) => trace_process(*process, options, words, &mut session),
    };
    match traced {
        Ok(traced) => {
            let outputs = Outputs { json, pictures };
            tell(&traced, &source, &kernel, session, outputs, options)
        }
        Err(refusal) => {
            if let Some(file) = to_record
                && session.record.as_ref().is_none_or(Writer::is_empty)
                && fs::metadata(file).is_ok_and(|found| found.is_file())
            {
                let _ = fs::remove_file(file);
            }
            complain(&refusal.0)
        }
    }
}

fn trace_program(
    path: &Path,
    options: &TraceOptions,
    words: Vec<String>,
    session: &mut Session,
) -> Result<Traced, Refusal> {
    let mut launched = launch::launch(path, &options.program, crate::streams::closed_at_start())
        .map_err(|error| Refusal(format!("`{}` cannot be traced: {error}", path.display())))?;
    interrupts::take_signals(launched.tid);
    // While the program is about to start.
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
    Ok(Traced {
        words,
        ending,
        elapsed,
    })
}

fn trace_process(
    process: Tid,
    options: &TraceOptions,
    words: Vec<String>,
    session: &mut Session,
) -> Result<Traced, Refusal> {
    launch::more_descriptors();
    interrupts::take_signals(interrupts::NOBODY);
    let begun = Instant::now();
    let attached = attach::attach(process)?;
    let tracer = Tracer::attached_to(&attached, session);
    if !options.quiet {
        let threads = number_of(attached.threads.len() as u64, "thread");
        say(&format!(
            "samara: attached to process {} with {threads}; Ctrl-C lets it go",
            attached.process
        ));
    }
    let ending = tracer.run().map_err(|failure| failed(&failure))?;
    Ok(Traced {
        words,
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

/// What is written at the end.
struct Outputs {
    json: Option<Destination>,
    pictures: Option<Pictured>,
}

/// Ends the record, draws it, and prints the summary; the value is the exit code.
fn tell(
    traced: &Traced,
    source: &Source,
    kernel: &Kernel,
    mut session: Session,
    outputs: Outputs,
    options: &TraceOptions,
) -> i32 {
    let (code, signal) = match traced.ending {
        Ending::Code(code) => (Some(code), 0),
        Ending::Signal { number, .. } => (Some(128 + number), number),
        Ending::LetGo => (None, 0),
    };
    let mut missing = false;
    let mut recorded = None;
    if let Some(record) = session.record.take() {
        match record.finish(code.unwrap_or(0), signal, &session.tally) {
            Ok(bytes) => {
                recorded = options.record.is_some().then_some(bytes);
                if let Some(Err(text)) = outputs.pictures.map(Pictured::draw) {
                    complain(&text);
                    missing = true;
                }
            }
            Err(error) => {
                complain(&format!("the record is incomplete: {error}"));
                missing = true;
            }
        }
    }
    let subject = Subject {
        words: &traced.words,
        kernel,
        exit_code: code,
        signal: (signal != 0).then_some(signal),
        elapsed: traced.elapsed,
        recorded,
        replay: None,
    };
    if !options.quiet || session.tally.verdict() != Verdict::Agreed {
        say(report::text(&subject, &session.tally).trim_end());
    }
    if let Some(file) = outputs.json
        && let Err(text) = report::write_json(file, &subject, &session.tally)
    {
        complain(&text);
        missing = true;
    }
    match of_verdict(session.tally.verdict()) {
        0 if missing => {
            if let (Source::Program(_), Some(code)) = (source, code) {
                say(&format!(
                    "samara: the program ended with exit code {code}; this one ends with {MISUSE}, since something could not be written"
                ));
            }
            MISUSE
        }
        0 => match source {
            Source::Program(_) => code.unwrap_or(0),
            // How it ended is not this program's affair.
            Source::Process(_) => 0,
        },
        told => told,
    }
}

/// The map of a process.
pub(crate) fn read_map(process: Tid, map: &mut Map) -> io::Result<()> {
    MapsFile::open(process)?.read(map)
}

/// The state of a process that waits.
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

/// Where the heap of a process starts.
pub(crate) fn start_of_heap(process: Tid) -> io::Result<u64> {
    Ok(samara_linux::proc::layout(process)?.start_brk)
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
