//! Performs records one after the other, and compares the address spaces with the kernel's.

use samara_conformance::checker::{Checker, Evidence, Listed, Place, Verdict};
use samara_conformance::describe::Described;
use samara_conformance::seed::Seed;
use samara_conformance::tally::{Finding, FindingKind, Tally};
use samara_linux::maps::Map;
use samara_mm::{AddressSpace, Call, NoPages, Pages};

use super::unknown;
use crate::record::{MapChange, Reason, Record};

/// One recorded address space, as long as engine and record agree on it.
pub(crate) struct Replayed {
    pub(crate) checker: Checker,
    /// The last call.
    pub(crate) last: Option<Call>,
    /// Engine and record disagree. Nothing is compared until the record's next seed of this space
    /// replaces the engine.
    pub(crate) parted: bool,
    /// Something happened to it that the record does not contain, or whose order it does not
    /// contain.
    pub(crate) uncertain: bool,
}

/// A listener that is shown each record after it was performed.
pub trait Watcher {
    /// Called after a record was performed.
    ///
    /// `engine` is the record's address space, if it is still followed. `call_number` is the number
    /// of the performed call, or 0. `differs` is `true` if the engine has differed from the kernel
    /// at this record for the first time. `replaced` is `true` if another hypothesis has become the
    /// likeliest.
    fn look(
        &mut self,
        record: &Record,
        engine: Option<&AddressSpace>,
        call_number: u64,
        differs: bool,
        replaced: bool,
    );
}

/// The state of a replay: the engines, and what was found.
#[derive(Default)]
pub struct Player {
    /// The kernel's maps are compared, too.
    maps: bool,
    /// Every invariant is checked after each call.
    check: bool,
    /// The spaces by number. `None` behind a disagreement, until the record starts the engine
    /// again.
    pub(crate) spaces: Vec<Option<Replayed>>,
    /// The kernel's map of each space at its last comparison.
    kernel: Vec<Map>,
    /// The counters and findings.
    pub tally: Tally,
    pub(crate) calls: u64,
    /// The number of records that were skipped, behind a disagreement of their address space.
    pub skipped: u64,
    /// The exit code and the signal of the program, once its last record was performed.
    pub exit: Option<(i32, i32)>,
    grown: Vec<u64>,
}

impl Player {
    /// Creates one before the first record. With `maps`, the kernel's maps are compared; with
    /// `check`, every invariant of the engine is checked after each call.
    pub fn new(maps: bool, check: bool) -> Self {
        Self {
            maps,
            check,
            ..Self::default()
        }
    }

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
            old.checker.retire(false, &mut self.tally);
        }
    }

    /// Performs a record, and shows the watcher the record's address space.
    pub fn play_for(&mut self, record: &Record, watcher: Option<&mut dyn Watcher>) {
        let Some(watcher) = watcher else {
            return self.play(record);
        };
        let state = |player: &Self| {
            let space = record.space()?;
            let replayed = player.spaces.get(space as usize)?.as_ref()?;
            Some((replayed.parted, replayed.checker.replaced()))
        };
        let (before, calls) = (state(self), self.calls);
        self.play(record);
        let after = state(self);
        let call = if self.calls > calls { self.calls } else { 0 };
        let engine = record
            .space()
            .and_then(|space| self.spaces.get(space as usize)?.as_ref())
            .filter(|replayed| !replayed.parted)
            .map(|replayed| replayed.checker.engine());
        let (differs, replaced) = match (before, after) {
            (Some((before, known)), Some((after, now))) => (!before && after, now != known),
            _ => (false, true),
        };
        watcher.look(record, engine, call, differs, replaced);
    }

    pub(crate) fn play(&mut self, record: &Record) {
        match record {
            Record::Seed {
                space,
                reason,
                seed,
            } => self.seed(*space, *reason, seed),
            Record::Fork { parent, child } => self.fork(*parent, *child),
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
                samara_conformance::tally::count(&mut self.tally.unmodelled, name);
            }
            Record::Map { space, change } => {
                if self.maps {
                    self.map(*space, change);
                }
            }
            Record::Gone { space, main } => {
                if let Some(replayed) = self.spaces[*space as usize].take() {
                    replayed.checker.retire(*main, &mut self.tally);
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
            Record::Grown { space, .. } => {
                self.tally.grown += 1;
                self.inform(*space, record);
            }
            Record::Written { space, .. }
            | Record::GrownMeanwhile { space, .. }
            | Record::NodesMeanwhile { space, .. }
            | Record::PerhapsWritten { space, .. }
            | Record::ShownLate { space, .. }
            | Record::Unknown { space, .. }
            | Record::Poisoned { space, .. }
            | Record::Brought { space, .. }
            | Record::Limits { space, .. }
            | Record::Settings { space, .. }
            | Record::Bases { space, .. } => self.inform(*space, record),
        }
    }

    /// Informs an engine, if it is still followed, of a fact that the record has about its address
    /// space.
    fn inform(&mut self, space: u32, record: &Record) {
        let Some(replayed) = self.space(space) else {
            return;
        };
        let checker = &mut replayed.checker;
        match record {
            Record::Written { start, end, .. } => {
                checker.note_written(*start, *end);
            }
            Record::Grown { start, .. } => {
                // The comparison may have found the growth already.
                checker.grow_stack(*start);
            }
            Record::GrownMeanwhile { start, .. } => {
                checker.may_have_grown(*start);
            }
            Record::NodesMeanwhile { nodes, .. } => {
                checker.may_have_named(*nodes);
            }
            Record::PerhapsWritten { address, .. } => {
                checker.may_have_written(*address);
            }
            Record::ShownLate { start, end, .. } => checker.doubt(*start, *end),
            Record::Unknown {
                start,
                end,
                unknown,
                ..
            } => match start == end {
                true => checker.next_is_unknown(*unknown),
                false => checker.doubt_for(*start, *end, *unknown),
            },
            Record::Poisoned { start, end, .. } => checker.poison(*start, *end),
            Record::Brought { start, end, .. } => checker.note_brought(*start, *end),
            Record::Limits { limits, .. } => checker.set_limits(*limits),
            Record::Settings { config, .. } => checker.set_config(config),
            Record::Bases {
                mmap_base,
                legacy_base,
                ..
            } => checker.set_bases(*mmap_base, *legacy_base),
            // These are more than facts: `play` performs them.
            Record::Seed { .. }
            | Record::Fork { .. }
            | Record::Call { .. }
            | Record::Unmodelled { .. }
            | Record::Map { .. }
            | Record::Gone { .. }
            | Record::Totals { .. }
            | Record::End { .. } => {}
        }
    }

    fn fork(&mut self, parent: u32, child: u32) {
        self.tally.forks += 1;
        self.tally.processes += 1;
        let forked = self
            .space(parent)
            .and_then(|replayed| replayed.checker.fork().ok());
        self.skipped += u64::from(forked.is_none());
        let uncertain = self.space(parent).is_some_and(|parent| parent.uncertain);
        let forked = forked.map(|checker| Replayed {
            checker,
            last: None,
            parted: false,
            uncertain,
        });
        self.put(child, forked);
        if self.maps {
            self.kernel[child as usize] = self.kernel[parent as usize].clone();
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
                .checker
                .start_anew(engine, &mut self.tally)
                .is_err();
            return;
        }
        match seed.build() {
            Ok(engine) => self.put(
                space,
                Some(Replayed {
                    checker: match reason {
                        Reason::Exec => Checker::new(engine, false),
                        Reason::Resync | Reason::Adopted => Checker::found(engine, false),
                    },
                    last: None,
                    parted: false,
                    uncertain: false,
                }),
            ),
            Err(errno) => {
                self.put(space, None);
                let call_number = self.calls;
                // The start was compared, so the counter of failures must not exceed that of
                // comparisons.
                self.tally.results += 1;
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
            // Concurrently with the call of another thread.
            let overlapped = evidence.after.is_some();
            let certain = !overlapped && !replayed.uncertain;
            let engine = replayed.checker.engine();
            if unknown::concerns(engine, call, returned, certain) {
                replayed.uncertain |= overlapped;
                *count += 1;
                replayed.checker.adopt(call, returned);
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
        let (verdict, own) = replayed.checker.perform(call, returned, evidence, facts);
        let verdict = replayed.checker.judge(call, returned, verdict);
        let known = self.tally.on_unknown.is_none();
        self.tally.ambiguous += u64::from(known && evidence.after.is_some());
        let place = Place {
            call_number: self.calls,
            process: thread,
        };
        Checker::count(call, returned, own, verdict, place, &mut self.tally);
        if self.maps {
            replayed.last = Some(call.clone());
        }
        if self.check {
            check(replayed.checker.engine(), call, place, &mut self.tally);
        }
        let both_failed = own < 0 && (-4095..0).contains(&returned);
        // If an undecided answer has changed another map, the record starts the engine again next.
        let goes_on = matches!(
            verdict,
            Verdict::Agrees | Verdict::Outside | Verdict::Undecided(_)
        );
        if !goes_on && !both_failed {
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
            .checker
            .compare(kernel, &mut self.grown, &mut self.tally.renamed);
        self.grown.clear();
        let Err(difference) = compared else { return };
        if let Some(unknown) = replayed.checker.undecided(kernel) {
            self.tally.undecided_maps += 1;
            self.tally.note_undecided(unknown);
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
            .checker
            .map_finding(kernel, &difference, place, last);
        self.tally.find(FindingKind::Map, || finding);
        replayed.parted = true;
    }

    /// Adds the figures of the remaining engines, at the end.
    pub fn finish(&mut self) {
        for replayed in self.spaces.drain(..).flatten() {
            replayed.checker.retire(false, &mut self.tally);
        }
    }
}

/// Checks every invariant of the engine after a call.
fn check(engine: &AddressSpace, call: &Call, place: Place, tally: &mut Tally) {
    if let Err(broken) = engine.check() {
        tally.find(FindingKind::Invariant, || Finding {
            kind: FindingKind::Invariant,
            call_number: place.call_number,
            process: place.process,
            call: Described(call).to_string(),
            detail: format!("{broken}\n"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reader;

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

    /// Reads and plays any text. Returns `true` if it could be read.
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
    fn no_text_of_strace_causes_a_panic() {
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
                        // Repeats a line elsewhere.
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
