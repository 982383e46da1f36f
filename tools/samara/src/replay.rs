//! `samara replay`: a recorded trace, performed on the engine without the program.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use samara_mm::Facts;

use crate::describe::Described;
use crate::follow::{Evidence, Follower, Place, Verdict};
use crate::outcome::{DISAGREED, complain};
use crate::record::{Reader, Reason, Record};
use crate::report::{self, Replay, Subject};
use crate::tally::{Finding, FindingKind, Tally};

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The trace, as `samara trace --record` wrote it.
    file: PathBuf,

    /// Compare results only, no maps.
    #[arg(long)]
    no_maps: bool,

    /// Check every invariant of the engine after each call. Slow.
    #[arg(long)]
    check: bool,

    /// Write the summary as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print no summary (a disagreement is still told).
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &ReplayOptions) -> i32 {
    let shown = options.file.display();
    let json = match options.json.as_deref().map(report::create).transpose() {
        Ok(json) => json,
        Err(text) => return complain(&text),
    };
    let begun = Instant::now();
    let read = Reader::open(&options.file).and_then(|reader| {
        let records = reader.records()?;
        Ok((reader, records))
    });
    let (reader, records) = match read {
        Ok(read) => read,
        Err(damage) => return complain(&format!("`{shown}` {damage}")),
    };
    let reading = begun.elapsed();
    let count = records.len();
    let begun = Instant::now();
    let mut player = Player {
        maps: !options.no_maps,
        check: options.check,
        ..Player::default()
    };
    // The program itself; the others come by forks.
    player.tally.processes = 1;
    for record in &records {
        player.play(record);
    }
    let performing = begun.elapsed();
    player.finish();

    let words: Vec<String> = reader.description["program"]
        .as_array()
        .map(|words| {
            words
                .iter()
                .map(|word| word.as_str().unwrap_or_default().to_owned())
                .collect()
        })
        .unwrap_or_default();
    let subject = Subject {
        words: &words,
        kernel: reader.description["kernel"].as_str().unwrap_or_default(),
        exit_code: player.exit.map(|(code, _)| code),
        signal: player
            .exit
            .map(|(_, signal)| signal)
            .filter(|signal| *signal != 0),
        elapsed: reading + performing,
        recorded: None,
        replay: Some(Replay {
            records: count,
            bytes: reader.len(),
            reading,
            performing,
            compared: !options.no_maps,
            skipped: player.skipped,
        }),
    };
    if !options.quiet || !player.tally.agreed() {
        crate::trace::say(report::text(&subject, &player.tally).trim_end());
    }
    if let Some(file) = json
        && let Err(text) = report::write_json(file, &subject, &player.tally)
    {
        return complain(&text);
    }
    if player.tally.agreed() { 0 } else { DISAGREED }
}

/// One recorded address space.
struct Replayed {
    follower: Follower,
    last: String,
}

/// Performs records.
#[derive(Default)]
struct Player {
    maps: bool,
    check: bool,
    spaces: HashMap<u32, Replayed>,
    tally: Tally,
    calls: u64,
    /// Records of address spaces that are behind a disagreement.
    skipped: u64,
    exit: Option<(i32, i32)>,
    grown: Vec<u64>,
}

/// The facts that a record holds.
struct Recorded<'a>(&'a [(u64, u64)]);

impl Facts for Recorded<'_> {
    fn written(&mut self, start: u64, end: u64) -> bool {
        // Exactly as asked when it was recorded, or, with an engine that asks otherwise, as well as can be told.
        self.0.contains(&(start, end))
            || self
                .0
                .iter()
                .any(|&(from, to)| from >= start && to <= end || from <= start && to >= end)
    }
}

impl Player {
    fn play(&mut self, record: &Record) {
        match record {
            Record::Seed {
                space,
                reason,
                seed,
            } => {
                match reason {
                    Reason::Exec => self.tally.execs += 1,
                    Reason::Adopted => self.tally.processes += 1,
                    Reason::Resync => {
                        *self.tally.resyncs.entry("as recorded").or_default() += 1;
                    }
                }
                if let Some(old) = self.spaces.remove(space) {
                    old.follower.retire(false, &mut self.tally);
                }
                match seed.build() {
                    Ok(engine) => {
                        let follower = Follower::new(engine);
                        let last = String::from("the start of the program");
                        self.spaces.insert(*space, Replayed { follower, last });
                    }
                    Err(errno) => self.tally.find(FindingKind::Result, || Finding {
                        kind: FindingKind::Result,
                        call_number: self.calls,
                        process: 0,
                        call: "the start of the program".to_owned(),
                        detail: format!("the engine refuses the map: {errno}\n"),
                    }),
                }
            }
            Record::Fork { parent, child } => {
                self.tally.forks += 1;
                self.tally.processes += 1;
                let Some(replayed) = self.spaces.get_mut(parent) else {
                    self.skipped += 1;
                    return;
                };
                if let Ok(follower) = replayed.follower.fork() {
                    let last = String::from("fork()");
                    self.spaces.insert(*child, Replayed { follower, last });
                }
            }
            Record::Written { space, start, end } => {
                if let Some(replayed) = self.spaces.get_mut(space) {
                    replayed.follower.note_written(*start, *end);
                }
            }
            Record::Grown { space, start } => {
                if let Some(replayed) = self.spaces.get_mut(space) {
                    // Comparing may have found the growth already.
                    replayed.follower.grow_stack(*start);
                    self.tally.grown += 1;
                }
            }
            Record::Limits { space, limits } => {
                if let Some(replayed) = self.spaces.get_mut(space) {
                    replayed.follower.set_limits(*limits);
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
                let Some(replayed) = self.spaces.get_mut(space) else {
                    self.skipped += 1;
                    return;
                };
                self.calls += 1;
                let evidence = Evidence {
                    before,
                    after: after.as_deref(),
                };
                let (verdict, own) =
                    replayed
                        .follower
                        .perform(call, *returned, evidence, &mut Recorded(before));
                self.tally.ambiguous += u64::from(after.is_some());
                let place = Place {
                    call_number: self.calls,
                    process: *thread,
                };
                Follower::count(call, *returned, own, verdict, place, &mut self.tally);
                if self.maps {
                    replayed.last = Described(call).to_string();
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
                if !matches!(verdict, Verdict::Agrees | Verdict::Outside) {
                    // The record's next seed of this space, if any, is where it can go on.
                    self.spaces.remove(space);
                }
            }
            Record::Unmodelled { name, .. } => {
                crate::tally::count(&mut self.tally.unmodelled, name);
            }
            Record::Map { space, map } => {
                if !self.maps {
                    return;
                }
                let Some(replayed) = self.spaces.get_mut(space) else {
                    self.skipped += 1;
                    return;
                };
                self.tally.maps += 1;
                self.tally.areas_compared += map.areas().len() as u64;
                let compared =
                    replayed
                        .follower
                        .compare(map, &mut self.grown, &mut self.tally.renamed);
                self.grown.clear();
                if let Err(difference) = compared {
                    let place = Place {
                        call_number: self.calls,
                        process: 0,
                    };
                    let last = replayed.last.clone();
                    let finding = replayed.follower.map_finding(map, &difference, place, last);
                    self.tally.find(FindingKind::Map, || finding);
                    self.spaces.remove(space);
                }
            }
            Record::Settings { space, config } => {
                if let Some(replayed) = self.spaces.get_mut(space) {
                    replayed.follower.set_config(config);
                }
            }
            Record::Gone { space, main } => {
                if let Some(replayed) = self.spaces.remove(space) {
                    replayed.follower.retire(*main, &mut self.tally);
                }
            }
            Record::End { exit_code, signal } => self.exit = Some((*exit_code, *signal)),
        }
    }

    fn finish(&mut self) {
        for (_, replayed) in self.spaces.drain() {
            replayed.follower.retire(false, &mut self.tally);
        }
    }
}
