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

/// Runs the command. Returns the exit code.
pub(crate) fn run(options: &TraceOptions) -> i32 {
    trace(options).unwrap_or_else(|text| complain(&text))
}

/// Traces the program or process. Returns the exit code.
///
/// # Errors
///
/// The text of the error, if nothing was traced.
fn trace(options: &TraceOptions) -> Result<i32, String> {
    let source = Source::of(options)?;
    let mut named: Vec<_> = options.pictures.files().collect();
    named.extend(options.json.as_deref().map(|json| ("--json", json)));
    named.extend(options.record.as_deref().map(|record| ("--record", record)));
    distinct(&named)?;
    // Files that cannot be written are reported before the program runs.
    let json = options.json.as_deref();
    let json = json.map(|file| Destination::open("--json", file));
    let json = json.transpose()?;
    // In another namespace, process numbers would be others', and maps of strangers be compared.
    if !samara_linux::proc_file::ours() {
        return Err(samara_linux::proc_file::MISSING.to_owned());
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
    let words = source.words(options);
    let pictures = Pictured::prepare(options)?;
    let record = writer(options, pictures.as_ref(), &words, &kernel)?;
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
            Ok(tell(&traced, &source, subject, session, outputs, options))
        }
        Err(refusal) => {
            if let Some(file) = options.record.as_deref()
                && session.record.as_ref().is_none_or(Writer::is_empty)
                && fs::metadata(file).is_ok_and(|found| found.is_file())
            {
                let _ = fs::remove_file(file);
            }
            Err(refusal.0)
        }
    }
}

impl Source {
    /// Returns the program or process that the options name.
    ///
    /// # Errors
    ///
    /// The text of the error, if there is none.
    fn of(options: &TraceOptions) -> Result<Self, String> {
        match (options.pid, options.program.first()) {
            (Some(process), _) => Ok(Source::Process(process)),
            (None, None) => Err("no program given; name one after `--`".to_owned()),
            (None, Some(name)) => trace::find(name)
                .map(Source::Program)
                .map_err(|refusal| refusal.0),
        }
    }

    /// Returns the command line.
    fn words(&self, options: &TraceOptions) -> Vec<String> {
        match self {
            Source::Program(_) => options
                .program
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            Source::Process(process) => trace::words(*process),
        }
    }
}

/// Creates the record, if there is one: of its own, or for the pictures.
///
/// # Errors
///
/// The text of the error, if it cannot be written.
fn writer(
    options: &TraceOptions,
    pictures: Option<&Pictured>,
    words: &[String],
    kernel: &Kernel,
) -> Result<Option<Writer>, String> {
    let to_record = options.record.as_deref();
    let Some(file) = to_record.or(pictures.map(Pictured::record)) else {
        return Ok(None);
    };
    let writer = Writer::create(file, words, kernel, to_record.is_some());
    writer.map(Some).map_err(|error| match to_record {
        None => format!(
            "the record that the picture is drawn from cannot be kept in memory: {error}; give --record a file for it, or raise `ulimit -f`"
        ),
        Some(file) => format!(
            "`{}` cannot be written: {error}; give --record another file (nothing was started)",
            file.display()
        ),
    })
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
