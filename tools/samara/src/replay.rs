//! `samara replay`: a recorded trace, performed on the engine without the program.

mod ended;
mod unknown;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use samara_mm::{AddressSpace, Call, NoPages, Pages};

use crate::describe::Described;
use crate::destination::Destination;
use crate::follow::{Evidence, Follower, Listed, Place, Verdict};
use crate::maps::Map;
use crate::minimise::minimise;
use crate::outcome::{complain, distinct};
use crate::picture::{Film, PictureOptions};
use crate::record::{MapChange, Reader, Reason, Record};
use crate::report::{self, Replay, Subject};
use crate::seed::Seed;
use crate::tally::{Finding, FindingKind, Tally, Verdict as Outcome};

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The trace, as `samara trace --record` wrote it, or the text of `strace -f` (with `-o` best; `-e trace=memory,process` and `-y` are enough
    /// and better). `-`: standard input. Of the latter, only results are compared: the map with which a program starts is unknown, and what concerns
    /// it is counted, but not compared.
    file: PathBuf,

    /// Compare results only, no maps.
    #[arg(long)]
    no_maps: bool,

    /// Check every invariant of the engine after each call. Slow.
    #[arg(long)]
    check: bool,

    /// If engine and record differ: find the shortest history that still does on this machine's kernel, and write it to PREFIX.rs (a test) and
    /// PREFIX.c (a program that shows what the kernel answers).
    #[arg(long, value_name = "PREFIX")]
    minimise: Option<PathBuf>,

    /// Write the summary as JSON to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    pictures: PictureOptions,

    /// Print no summary (a disagreement is still told).
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
    let mut player = Player {
        maps: !options.no_maps,
        check: options.check,
        ..Player::default()
    };
    // The program itself; the others come by forks.
    player.tally.processes = 1;
    player.tally.on_unknown = reader.from_strace.then_some(0);
    let words = words(&reader);
    let mut film = options
        .pictures
        .any()
        .then(|| Film::new(&words, kernel(&reader)));
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

    if let Some(film) = &film
        && let Err(text) = canvases.draw(film)
    {
        return complain(&text);
    }
    let subject = Subject {
        words: &words,
        kernel: kernel(&reader),
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
    if !options.quiet || player.tally.verdict() != Outcome::Agreed {
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
                    "samara: {} of {} steps suffice: `{}` and `{}`",
                    found.steps,
                    found.of,
                    found.files[0].display(),
                    found.files[1].display()
                )),
                Err(text) => crate::trace::say(&format!("samara: {text}")),
            }
        }
    }
    player.tally.verdict().exit_code()
}

/// The address space that performed call number `call`, counted over all of them, as it was after that and before the next call. After call 0 is the start of
/// the program.
///
/// # Errors
/// How many calls there are, if they are fewer.
pub(crate) fn after(reader: &Reader, call: u64) -> Result<AddressSpace, u64> {
    let mut player = Player {
        maps: true,
        ..Player::default()
    };
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

/// Release of the kernel that it ran on.
fn kernel(reader: &Reader) -> &str {
    reader.description["kernel"].as_str().unwrap_or_default()
}

/// Performs a whole trace for pictures of it.
pub(crate) fn film(reader: &Reader) -> Film {
    let mut film = Film::new(&words(reader), kernel(reader));
    let mut player = Player {
        maps: true,
        ..Player::default()
    };
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

/// One recorded address space, as long as engine and record agree on it.
struct Replayed {
    follower: Follower,
    /// The last call.
    last: Option<Call>,
    /// Engine and kernel have: nothing is compared until the record's next seed of this space, which takes over from the engine.
    parted: bool,
    /// Something was done to it that is not told, or in an order that is not.
    uncertain: bool,
}

/// Performs records.
#[derive(Default)]
struct Player {
    maps: bool,
    check: bool,
    /// By number; `None` behind a disagreement, until the record starts the engine anew.
    spaces: Vec<Option<Replayed>>,
    /// The kernel's map of each space at its last comparison.
    kernel: Vec<Map>,
    tally: Tally,
    calls: u64,
    /// Records of address spaces that are behind a disagreement.
    skipped: u64,
    exit: Option<(i32, i32)>,
    grown: Vec<u64>,
}

impl Player {
    fn space(&mut self, number: u32) -> Option<&mut Replayed> {
        self.spaces.get_mut(number as usize)?.as_mut()
    }

    fn put(&mut self, number: u32, replayed: Option<Replayed>) {
        let index = number as usize;
        if index >= self.spaces.len() {
            self.spaces.resize_with(index + 1, || None);
            self.kernel.resize_with(index + 1, Map::default);
        }
        if let Some(old) = std::mem::replace(&mut self.spaces[index], replayed) {
            old.follower.retire(false, &mut self.tally);
        }
    }

    /// Performs a record, and shows the film what has become of the address space that it tells of.
    fn play_for(&mut self, record: &Record, film: Option<&mut Film>) {
        let Some(film) = film else {
            return self.play(record);
        };
        let state = |player: &Self| {
            let space = record.space()?;
            let replayed = player.spaces.get(space as usize)?.as_ref()?;
            Some((replayed.parted, replayed.follower.replaced()))
        };
        let (before, calls) = (state(self), self.calls);
        self.play(record);
        let after = state(self);
        let call = if self.calls > calls { self.calls } else { 0 };
        let engine = record
            .space()
            .and_then(|space| self.spaces.get(space as usize)?.as_ref())
            .filter(|replayed| !replayed.parted)
            .map(|replayed| replayed.follower.engine());
        let (differs, replaced) = match (before, after) {
            (Some((before, known)), Some((after, now))) => (!before && after, now != known),
            _ => (false, true),
        };
        film.look(record, engine, call, differs, replaced);
    }

    fn play(&mut self, record: &Record) {
        match record {
            Record::Seed {
                space,
                reason,
                seed,
            } => self.seed(*space, *reason, seed),
            Record::Fork { parent, child } => {
                self.tally.forks += 1;
                self.tally.processes += 1;
                let forked = self
                    .space(*parent)
                    .and_then(|replayed| replayed.follower.fork().ok());
                self.skipped += u64::from(forked.is_none());
                let uncertain = self.space(*parent).is_some_and(|parent| parent.uncertain);
                let forked = forked.map(|follower| Replayed {
                    follower,
                    last: None,
                    parted: false,
                    uncertain,
                });
                self.put(*child, forked);
                if self.maps {
                    self.kernel[*child as usize] = self.kernel[*parent as usize].clone();
                }
            }
            Record::Written { space, start, end } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.note_written(*start, *end);
                }
            }
            Record::Grown { space, start } => {
                self.tally.grown += 1;
                if let Some(replayed) = self.space(*space) {
                    // Comparing may have found the growth already.
                    replayed.follower.grow_stack(*start);
                }
            }
            Record::GrownMeanwhile { space, start } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.may_have_grown(*start);
                }
            }
            Record::NodesMeanwhile { space, nodes } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.may_have_named(*nodes);
                }
            }
            Record::PerhapsWritten { space, address } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.may_have_written(*address);
                }
            }
            Record::ShownLate { space, start, end } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.doubt(*start, *end);
                }
            }
            Record::Limits { space, limits } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.set_limits(*limits);
                }
            }
            Record::Settings { space, config } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.follower.set_config(config);
                }
            }
            Record::Call {
                space,
                thread,
                returned,
                before,
                after,
                call,
            } => {
                let evidence = Evidence {
                    before,
                    after: after.as_deref(),
                };
                self.call(*space, *thread, call, *returned, evidence);
            }
            Record::Unmodelled { name, space, .. } => {
                if let Some(replayed) = self.space(*space) {
                    replayed.uncertain = true;
                }
                crate::tally::count(&mut self.tally.unmodelled, name);
            }
            Record::Map { space, change } => {
                if self.maps {
                    self.map(*space, change);
                }
            }
            Record::Gone { space, main } => {
                if let Some(replayed) = self.spaces[*space as usize].take() {
                    replayed.follower.retire(*main, &mut self.tally);
                }
                self.kernel[*space as usize] = Map::default();
            }
            Record::Totals {
                processes,
                threads,
                not_followed,
            } => {
                self.tally.processes = *processes;
                self.tally.threads = *threads;
                self.tally.not_followed = not_followed.iter().cloned().collect();
            }
            Record::End { exit_code, signal } => self.exit = Some((*exit_code, *signal)),
        }
    }

    fn seed(&mut self, space: u32, reason: Reason, seed: &Seed) {
        match reason {
            Reason::Exec => self.tally.execs += 1,
            Reason::Adopted => self.tally.processes += 1,
            Reason::Resync => *self.tally.resyncs.entry("as recorded").or_default() += 1,
        }
        if reason == Reason::Resync
            && let Some(replayed) = self.spaces.get_mut(space as usize).and_then(Option::as_mut)
            && let Ok(engine) = seed.build()
        {
            replayed.parted = replayed
                .follower
                .start_anew(engine, &mut self.tally)
                .is_err();
            return;
        }
        match seed.build() {
            Ok(engine) => self.put(
                space,
                Some(Replayed {
                    follower: Follower::new(engine, false),
                    last: None,
                    parted: false,
                    uncertain: false,
                }),
            ),
            Err(errno) => {
                self.put(space, None);
                let call_number = self.calls;
                self.tally.find(FindingKind::Result, || Finding {
                    kind: FindingKind::Result,
                    call_number,
                    process: 0,
                    call: "the start of the program".to_owned(),
                    detail: format!("the engine refuses the map: {errno}\n"),
                });
            }
        }
        if reason != Reason::Resync {
            self.kernel[space as usize] = Map::default();
        }
    }

    fn call(
        &mut self,
        space: u32,
        thread: i32,
        call: &Call,
        returned: i64,
        evidence: Evidence<'_>,
    ) {
        let followed = self.spaces.get_mut(space as usize).and_then(Option::as_mut);
        let Some(replayed) = followed.filter(|replayed| !replayed.parted) else {
            self.skipped += 1;
            return;
        };
        if let Some(count) = &mut self.tally.on_unknown {
            // Beside the call of another thread.
            let overlapped = evidence.after.is_some();
            let certain = !overlapped && !replayed.uncertain;
            let engine = replayed.follower.engine();
            if unknown::concerns(engine, call, returned, certain) {
                replayed.uncertain |= overlapped;
                *count += 1;
                replayed.follower.adopt(call, returned);
                return;
            }
        }
        self.calls += 1;
        let mut listed = Listed(evidence.before);
        let facts: &mut dyn Pages = if evidence.before.is_empty() {
            &mut NoPages
        } else {
            &mut listed
        };
        let (verdict, own) = replayed.follower.perform(call, returned, evidence, facts);
        let known = self.tally.on_unknown.is_none();
        self.tally.ambiguous += u64::from(known && evidence.after.is_some());
        let place = Place {
            call_number: self.calls,
            process: thread,
        };
        Follower::count(call, returned, own, verdict, place, &mut self.tally);
        if self.maps {
            replayed.last = Some(call.clone());
        }
        if self.check
            && let Err(broken) = replayed.follower.engine().check()
        {
            self.tally.find(FindingKind::Invariant, || Finding {
                kind: FindingKind::Invariant,
                call_number: place.call_number,
                process: place.process,
                call: Described(call).to_string(),
                detail: format!("{broken}\n"),
            });
        }
        let both_failed = own < 0 && (-4095..0).contains(&returned);
        if !matches!(verdict, Verdict::Agrees | Verdict::Outside) && !both_failed {
            replayed.parted = true;
        }
    }

    fn map(&mut self, space: u32, change: &MapChange) {
        let kernel = &mut self.kernel[space as usize];
        kernel.replace(change.front, change.behind, &change.areas);
        let followed = self.spaces.get_mut(space as usize).and_then(Option::as_mut);
        let Some(replayed) = followed.filter(|replayed| !replayed.parted) else {
            self.skipped += 1;
            return;
        };
        self.tally.maps += 1;
        self.tally.areas_compared += kernel.areas().len() as u64;
        let compared = replayed
            .follower
            .compare(kernel, &mut self.grown, &mut self.tally.renamed);
        self.grown.clear();
        let Err(difference) = compared else { return };
        if replayed.follower.is_open(kernel) {
            self.tally.undecided_maps += 1;
            replayed.parted = true;
            return;
        }
        let place = Place {
            call_number: self.calls,
            process: 0,
        };
        let last = match &replayed.last {
            Some(call) => Described(call).to_string(),
            None => "the start of the program, or a fork".to_owned(),
        };
        let finding = replayed
            .follower
            .map_finding(kernel, &difference, place, last);
        self.tally.find(FindingKind::Map, || finding);
        replayed.parted = true;
    }

    fn finish(&mut self) {
        for replayed in self.spaces.drain(..).flatten() {
            replayed.follower.retire(false, &mut self.tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7  execve(\"/bin/x\", [\"x\", \"y\\\"z\"], 0x7ffc1ccabd28 /* 35 vars */) = 0
7  brk(NULL) = 0x560481530000
7  brk(0x560481551000) = 0x560481551000
7  12:00:00.5 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f000000e000 <0.1>
7  mmap(NULL, 40899, PROT_READ, MAP_PRIVATE, 3</etc/ld.so.cache>, 0x1000) = 0x7f0000004000
7  mprotect(0x7f000000e000, 4096, PROT_NONE) = 0
7  clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>
8  mremap(0x7f000000f000, 4096, 1<<21, MREMAP_MAYMOVE) = 0x7effffe00000
7  <... clone resumed>, child_tidptr=0x7f) = 8
7  clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f}, 88strace: Process 9 attached
 <unfinished ...>
9  madvise(0x7f000000f000, 4096, MADV_DONTNEED <unfinished ...>
7  munmap(0x7f000000e000, 8192) = -1 EINVAL (Invalid argument)
9  <... madvise resumed>) = ? ERESTARTSYS (To be restarted)
8  --- SIGCHLD {si_signo=SIGCHLD, si_pid=8} ---
8  +++ exited with 5 +++
7  +++ killed by SIGKILL +++
";

    /// Reads and plays a text, whatever it is; true if it was read.
    fn play(text: &[u8]) -> bool {
        let Ok(reader) = Reader::either(text) else {
            return false;
        };
        let mut player = Player::default();
        player.tally.on_unknown = reader.from_strace.then_some(0);
        for record in &reader.records {
            player.play(record);
        }
        player.finish();
        true
    }

    #[test]
    fn no_text_of_strace_does_harm() {
        assert!(play(TEXT.as_bytes()));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % n.max(1)
        };
        const PIECES: [&str; 12] = [
            "(",
            ")",
            "<",
            ">",
            "\"",
            "\\",
            ", ",
            "0xffffffffffffffff",
            "|",
            " <unfinished ...>\n",
            "\n",
            "é",
        ];
        let mut read = 0;
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let mut text = TEXT.as_bytes().to_vec();
            for _ in 0..1 + below(4) {
                let at = below(text.len());
                match below(6) {
                    0 => text[at] = below(256) as u8,
                    1 => text.truncate(at),
                    2 => drop(text.drain(at..(at + 1 + below(40)).min(text.len()))),
                    3 => {
                        let piece = PIECES[below(PIECES.len())].bytes();
                        drop(text.splice(at..at, piece));
                    }
                    4 => {
                        // A line once more, elsewhere.
                        let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
                        let line = lines[below(lines.len())].to_vec();
                        let before = lines[..below(lines.len())].concat();
                        drop(text.splice(before.len()..before.len(), line));
                    }
                    _ => {
                        let digit = b'0' + below(10) as u8;
                        text[at] = digit;
                    }
                }
                if text.is_empty() {
                    break;
                }
            }
            read += u32::from(play(&text));
        }
        assert!(read > 100, "hardly any was read");
    }
}
