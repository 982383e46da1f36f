//! `samara replay`: a recorded trace, performed on the engine without the program.

use std::path::{Path, PathBuf};
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

/// Runs the command. Returns the exit code.
pub(crate) fn run(options: &ReplayOptions) -> i32 {
    replay(options).unwrap_or_else(|text| complain(&text))
}

/// Replays the recording, and writes and prints the results. Returns the exit code.
///
/// # Errors
///
/// The text of the error: a file that cannot be read or written, or that is named twice.
fn replay(options: &ReplayOptions) -> Result<i32, String> {
    let mut files = vec![("the trace", options.file.as_path())];
    files.extend(options.json.as_deref().map(|json| ("--json", json)));
    files.extend(options.pictures.files());
    distinct(&files)?;
    let json = options.json.as_deref();
    let json = json.map(|file| Destination::open("--json", file));
    let json = json.transpose()?;
    let begun = Instant::now();
    let reader = Reader::open(&options.file)
        .map_err(|damage| format!("`{}` {damage}", options.file.display()))?;
    let reading = begun.elapsed();
    // Opened now, so that a file that cannot be written is reported before the work.
    let canvases = options.pictures.open()?;
    let words = words(&reader);
    let kernel = reader.kernel();
    let mut film = options
        .pictures
        .any()
        .then(|| Film::new(&words, &kernel.release));
    let played = Played::of(&reader, options, film.as_mut());
    if let Some(film) = &film {
        canvases.draw(film)?;
    }
    let player = &played.player;
    let subject = Subject {
        words: &words,
        kernel: &kernel,
        exit_code: player.exit.map(|(code, _)| code),
        signal: player
            .exit
            .map(|(_, signal)| signal)
            .filter(|signal| *signal != 0),
        elapsed: reading + played.performing,
        recorded: None,
        replay: Some(Replay {
            records: reader.records.len(),
            bytes: reader.length,
            reading,
            performing: played.performing,
            processor: played.processor,
            compared: !options.no_maps,
            skipped: player.skipped,
        }),
    };
    if !options.quiet || player.tally.verdict() != Verdict::Agreed {
        say(report::text(&subject, &player.tally).trim_end());
    }
    if let Some(file) = json {
        report::write_json(file, &subject, &player.tally)?;
    }
    if let Some(prefix) = &options.minimise {
        say(&minimised(&reader, &played.differing, prefix));
    }
    Ok(of_verdict(player.tally.verdict()))
}

/// The performed records, with the time that this took.
struct Played {
    player: Player,
    /// The records that differed, each with its address space.
    differing: Vec<(usize, u32)>,
    performing: Duration,
    /// The processor time.
    processor: Duration,
}

impl Played {
    /// Performs all records.
    fn of(reader: &Reader, options: &ReplayOptions, mut film: Option<&mut Film>) -> Self {
        let (begun, processor) = (Instant::now(), processor_time());
        let mut player = Player::new(!options.no_maps, options.check);
        // The program itself; the others come by forks.
        player.tally.processes = 1;
        player.tally.on_unknown = reader.from_strace.then_some(0);
        let mut differing: Vec<(usize, u32)> = Vec::new();
        for (index, record) in reader.records.iter().enumerate() {
            let before = player.tally.disagreements();
            let watcher = film.as_deref_mut().map(|film| film as &mut dyn Watcher);
            player.play_for(record, watcher);
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
        Played {
            player,
            differing,
            performing,
            processor,
        }
    }
}

/// Minimises the first differences, and returns a line about the result.
fn minimised(reader: &Reader, differing: &[(usize, u32)], prefix: &Path) -> String {
    if differing.is_empty() {
        return "samara: engine and record do not differ: there is nothing to minimise".to_owned();
    }
    match minimise(&reader.records, differing, prefix) {
        Ok(found) => format!(
            "samara: {} of {} suffice: `{}` and `{}`",
            found.steps,
            number_of(found.of as u64, "step"),
            found.files[0].display(),
            found.files[1].display()
        ),
        Err(text) => format!("samara: {text}"),
    }
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
