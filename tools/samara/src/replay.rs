//! `samara replay`: a recorded trace, performed on the engine without the program.

mod ended;
mod player;
mod unknown;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use samara_conformance::tally::Verdict;
use samara_mm::AddressSpace;

use crate::destination::Destination;
use crate::minimise::minimise;
use crate::outcome::{complain, distinct, of_verdict};
use crate::picture::{Film, PictureOptions};
use crate::quantity::number_of;
use crate::record::{Reader, Record};
use crate::report::{self, Replay, Subject};

use player::Player;

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
        player.play_for(record, film.as_mut());
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
        crate::trace::say(report::text(&subject, &player.tally).trim_end());
    }
    if let Some(file) = json
        && let Err(text) = report::write_json(file, &subject, &player.tally)
    {
        return complain(&text);
    }
    if let Some(prefix) = &options.minimise {
        if differing.is_empty() {
            crate::trace::say(
                "samara: engine and record do not differ: there is nothing to minimise",
            );
        } else {
            match minimise(&reader.records, &differing, prefix) {
                Ok(found) => crate::trace::say(&format!(
                    "samara: {} of {} suffice: `{}` and `{}`",
                    found.steps,
                    number_of(found.of as u64, "step"),
                    found.files[0].display(),
                    found.files[1].display()
                )),
                Err(text) => crate::trace::say(&format!("samara: {text}")),
            }
        }
    }
    of_verdict(player.tally.verdict())
}

/// The address space that performed call number `call`, counted over all of them, as it was after that and before the next call. After call 0 is the start of
/// the program.
///
/// # Errors
/// How many calls there are, if they are fewer.
pub(crate) fn after(reader: &Reader, call: u64) -> Result<AddressSpace, u64> {
    let mut player = Player::new(true, false);
    let mut of = 0;
    let mut found = false;
    for record in &reader.records {
        match record {
            Record::Call { .. } | Record::Unmodelled { .. } | Record::Gone { .. } if found => break,
            Record::Fork { .. } | Record::Seed { .. } if found && call > 0 => break,
            _ => {}
        }
        let before = player.calls;
        player.play(record);
        if let Record::Call { space, .. } = record
            && player.calls > before
        {
            of = *space;
        }
        found = player.calls == call && (call > 0 || !player.spaces.is_empty());
    }
    let replayed = player.spaces.get_mut(of as usize).and_then(Option::take);
    match replayed.filter(|_| found) {
        Some(replayed) => Ok(replayed.follower.into_engine()),
        None => Err(player.calls),
    }
}

/// Returns the number of a call, the last one if none is given, and the address space that performed it, as it was afterwards.
///
/// # Errors
/// How many calls there are, if they are fewer or there is no address space after that one.
pub(crate) fn at(reader: &Reader, call: Option<u64>) -> Result<(u64, AddressSpace), u64> {
    let call = match call {
        Some(call) => call,
        None => match after(reader, u64::MAX) {
            Err(last) => last,
            Ok(_) => u64::MAX,
        },
    };
    after(reader, call).map(|space| (call, space))
}

pub use ended::Ended;
pub(crate) use ended::spaces;

/// The program that was traced, and its arguments.
pub(crate) fn words(reader: &Reader) -> Vec<String> {
    let words = reader.description["program"].as_array();
    words
        .into_iter()
        .flatten()
        .map(|word| word.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Performs a whole trace for pictures of it.
pub(crate) fn film(reader: &Reader) -> Film {
    let mut film = Film::new(&words(reader), &reader.kernel().release);
    let mut player = Player::new(true, false);
    for record in &reader.records {
        player.play_for(record, Some(&mut film));
    }
    film
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
