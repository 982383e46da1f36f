//! `samara replay`: a recorded trace, performed on the engine without the program.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use samara_conformance::tally::Verdict;
use samara_tracer::minimise::minimise;
use samara_tracer::quantity::number_of;
use samara_tracer::record::{Reader, Record};
use samara_tracer::replay::{Player, Watcher, words};
use samara_tracer::tell::say;

use crate::destination::Destination;
use crate::outcome::{complain, distinct, of_verdict};
use crate::picture::{Film, PictureOptions};
use crate::report::{self, Replay, Subject};

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// A recording of `samara trace --record`, or the text of `strace -f -y -e trace=memory,process -o FILE` (`-`: standard input). strace does not
    /// tell with which map a program starts: only results are compared then, and calls that concern that map are counted, not compared.
    file: PathBuf,

    /// Compare results only, no maps.
    #[arg(long)]
    no_maps: bool,

    /// Check every invariant of the engine after each call. Slow.
    #[arg(long)]
    check: bool,

    /// If engine and record differ: find the shortest history that still differs on this machine's kernel. Write it to PREFIX.rs (a test) and
    /// PREFIX.c (a program that prints what the kernel answers).
    #[arg(long, value_name = "PREFIX")]
    minimise: Option<PathBuf>,

    /// Write the summary as JSON to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    pictures: PictureOptions,

    /// Print the summary only if not everything was compared and agreed.
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &ReplayOptions) -> i32 {
    let shown = options.file.display();
    let mut files = vec![("the trace", options.file.as_path())];
    files.extend(options.json.as_deref().map(|json| ("--json", json)));
    files.extend(options.pictures.files());
    if let Err(text) = distinct(&files) {
        return complain(&text);
    }
    let json = options.json.as_deref();
    let json = json.map(|file| Destination::open("--json", file));
    let json = match json.transpose() {
        Ok(json) => json,
        Err(text) => return complain(&text),
    };
    let begun = Instant::now();
    let reader = match Reader::open(&options.file) {
        Ok(reader) => reader,
        Err(damage) => return complain(&format!("`{shown}` {damage}")),
    };
    let reading = begun.elapsed();
    // Opened now, so that what cannot be written is told before the work.
    let canvases = match options.pictures.open() {
        Ok(canvases) => canvases,
        Err(text) => return complain(&text),
    };
    let count = reader.records.len();
    let (begun, processor) = (Instant::now(), processor_time());
    let mut player = Player::new(!options.no_maps, options.check);
    // The program itself; the others come by forks.
    player.tally.processes = 1;
    player.tally.on_unknown = reader.from_strace.then_some(0);
    let words = words(&reader);
    let kernel = reader.kernel();
    let mut film = options
        .pictures
        .any()
        .then(|| Film::new(&words, &kernel.release));
    let mut differing: Vec<(usize, u32)> = Vec::new();
    for (index, record) in reader.records.iter().enumerate() {
        let before = player.tally.disagreements();
        player.play_for(record, film.as_mut().map(|film| film as &mut dyn Watcher));
        if player.tally.disagreements() > before
            && let Record::Call { space, .. } | Record::Map { space, .. } = record
        {
            differing.push((index, *space));
        }
    }
    let performing = begun.elapsed();
    let processor = processor_time().saturating_sub(processor);
    player.finish();
    player.tally.interrupted = reader.cut.map(|cut| cut.to_string().into());

    if let Some(film) = &film
        && let Err(text) = canvases.draw(film)
    {
        return complain(&text);
    }
    let subject = Subject {
        words: &words,
        kernel: &kernel,
        exit_code: player.exit.map(|(code, _)| code),
        signal: player
            .exit
            .map(|(_, signal)| signal)
            .filter(|signal| *signal != 0),
        elapsed: reading + performing,
        recorded: None,
        replay: Some(Replay {
            records: count,
            bytes: reader.length,
            reading,
            performing,
            processor,
            compared: !options.no_maps,
            skipped: player.skipped,
        }),
    };
    if !options.quiet || player.tally.verdict() != Verdict::Agreed {
        say(report::text(&subject, &player.tally).trim_end());
    }
    if let Some(file) = json
        && let Err(text) = report::write_json(file, &subject, &player.tally)
    {
        return complain(&text);
    }
    if let Some(prefix) = &options.minimise {
        if differing.is_empty() {
            say("samara: engine and record do not differ: there is nothing to minimise");
        } else {
            match minimise(&reader.records, &differing, prefix) {
                Ok(found) => say(&format!(
                    "samara: {} of {} suffice: `{}` and `{}`",
                    found.steps,
                    number_of(found.of as u64, "step"),
                    found.files[0].display(),
                    found.files[1].display()
                )),
                Err(text) => say(&format!("samara: {text}")),
            }
        }
    }
    of_verdict(player.tally.verdict())
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
