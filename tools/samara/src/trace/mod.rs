//! `samara trace`: runs the tracer, and tells what it found.

mod options;
mod pictured;
mod progress;

use std::fs;
use std::path::PathBuf;

use samara_conformance::tally::Verdict;
use samara_linux::Tid;
use samara_mm::KernelVersion;
use samara_tracer::kernel::Kernel;
use samara_tracer::record::Writer;
use samara_tracer::tell::say;
use samara_tracer::trace::{self, Ending, Session, Settings, Traced};

use crate::destination::Destination;
use crate::outcome::{MISUSE, complain, distinct, of_verdict};
use crate::report::{self, Subject};

pub(crate) use options::TraceOptions;
use pictured::Pictured;
use progress::ProgressLine;

/// The program to trace.
enum Source {
    Program(PathBuf),
    Process(Tid),
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &TraceOptions) -> i32 {
    let source = match (options.pid, options.program.first()) {
        (Some(process), _) => Source::Process(process),
        (None, None) => return complain("no program given; name one after `--`"),
        (None, Some(name)) => match trace::find(name) {
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
        Source::Process(process) => trace::words(*process),
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
    let settings = Settings {
        verify: options.verify,
        check: options.check,
        calls: options.calls,
    };
    let progress = Box::new(ProgressLine::new());
    let mut session = Session::new(&settings, version, record, progress);
    let traced = match &source {
        Source::Program(path) => trace::trace_program(path, &options.program, &mut session),
        Source::Process(process) => trace::trace_process(*process, options.quiet, &mut session),
    };
    match traced {
        Ok(traced) => {
            let outputs = Outputs { json, pictures };
            let subject = Subject::of(&words, &kernel);
            tell(&traced, &source, subject, session, outputs, options)
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

/// The files that are written at the end.
struct Outputs {
    json: Option<Destination>,
    pictures: Option<Pictured>,
}

/// Ends the record, draws it, and prints the summary; the value is the exit code.
fn tell(
    traced: &Traced,
    source: &Source,
    subject: Subject<'_>,
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
        exit_code: code,
        signal: (signal != 0).then_some(signal),
        elapsed: traced.elapsed,
        recorded,
        ..subject
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
