//! Counters and findings of a program that is followed, live or from a record.

use std::collections::BTreeMap;

use crate::describe::KINDS;
use crate::undecided::Unknown;

/// The kind of a disagreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Another value or error than the kernel's.
    Result,
    /// Another address than the kernel chose.
    Prediction,
    /// Another map than the kernel's.
    Map,
    /// An invariant of the engine is broken.
    Invariant,
}

/// A disagreement.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// Number of the call, counted over the whole trace from 1.
    pub call_number: u64,
    /// The process that made it.
    pub process: i32,
    /// The call that caused it, in words.
    pub call: String,
    /// The answers of engine and kernel, in one line or several.
    pub detail: String,
}

/// The number of disagreements of each kind that are kept.
const KEPT: usize = 100;

/// The result of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Engine and kernel agreed throughout.
    Agreed,
    /// They disagreed.
    Disagreed,
    /// Every disagreement may be explained by something that could not be seen.
    Undecided,
    /// They agreed, but some processes could not be followed, or the record was interrupted.
    NotAll,
    /// No map and no result was compared.
    Nothing,
}

/// Counters of one trace.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Calls performed on the engine, by [`KINDS`].
    pub calls: [u64; KINDS.len()],
    /// Calls that failed, by the kernel and by the engine.
    pub failing: u64,
    /// Results that were compared.
    pub results: u64,
    /// Results that differ.
    pub wrong_results: u64,
    /// Addresses that the kernel chose and the engine predicted.
    pub predictions: u64,
    /// Predictions that differ.
    pub wrong_predictions: u64,
    /// Addresses that the kernel chose at random, so that they cannot be predicted.
    pub random: u64,
    /// Maps that were compared.
    pub maps: u64,
    /// Maps of those of which only what a call can have changed was compared.
    pub parts: u64,
    /// Maps that differ.
    pub wrong_maps: u64,
    /// Maps that differ where [something is not known](Unknown), which may have explained them.
    pub undecided_maps: u64,
    /// The same of results.
    pub undecided_results: u64,
    /// Both, by what is not known.
    pub undecided: BTreeMap<&'static str, u64>,
    /// Invariants of the engine that were found broken.
    pub broken_invariants: u64,
    /// Areas of all compared maps.
    pub areas_compared: u64,
    /// Calls that the engine does not model, by name.
    pub unmodelled: BTreeMap<Box<str>, u64>,
    /// Calls that failed for a reason that no address space decides (a driver, I/O), by name.
    pub outside: BTreeMap<Box<str>, u64>,
    /// Calls that were not compared, since they concern what is not known of the start. `None`: all is known.
    pub on_unknown: Option<u64>,
    /// The engine was started anew from the kernel's map, by reason.
    pub resyncs: BTreeMap<&'static str, u64>,
    /// A page was written by another thread while the call was under way; the kernel's map told when.
    pub ambiguous: u64,
    /// Facts asked for that had not been sampled.
    pub unsampled: u64,
    /// Names that changed while the file was mapped.
    pub renamed: u64,
    /// Areas that faults have grown down.
    pub grown: u64,
    /// Forks that were followed.
    pub forks: u64,
    /// Programs that were started.
    pub execs: u64,
    /// Those whose map was predicted from the files, and compared.
    pub execs_predicted: u64,
    /// Processes of the program.
    pub processes: u64,
    /// Threads of the program.
    pub threads: u64,
    /// Processes that were not followed, or not to their end, by reason.
    pub not_followed: BTreeMap<Box<str>, u64>,
    /// The interruption of the program's record, in words: the rest is not known.
    pub interrupted: Option<Box<str>>,
    /// Address spaces that ended before a last comparison.
    pub ended_unseen: u64,
    /// Requests to trace a thread that were refused: it has a tracer already, this one.
    pub tracers_refused: u64,
    /// Figures of the engines.
    pub spaces: SpaceTotals,
    /// The first disagreements of each kind.
    pub findings: Vec<Finding>,
}

/// Figures of the engines, summed up or at their largest.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpaceTotals {
    /// Calls performed on engines under another assumption about the order of faults.
    pub alternatives: u64,
    /// Such engines that nothing had refuted, but that were too many or had been followed for too long.
    pub given_up: u64,
    /// Merges of areas.
    pub merges: u64,
    /// Splits of areas.
    pub splits: u64,
    /// The most areas of one engine.
    pub areas_peak: u64,
    /// Figures of the main program's last address space, when it ended.
    pub main: SpaceFigures,
    /// Figures of the largest address space.
    pub largest: SpaceFigures,
}

/// The state of one engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpaceFigures {
    /// Areas.
    pub areas: u64,
    /// The most areas at one time.
    pub areas_peak: u64,
    /// Free ranges between areas.
    pub gaps: u64,
    /// The size of the largest of them in bytes.
    pub largest_gap: u64,
    /// The bytes that are mapped.
    pub mapped: u64,
    /// The height of the tree.
    pub tree_height: u64,
    /// The size of the tree in bytes.
    pub tree_bytes: u64,
}

impl Tally {
    /// Returns the number of calls of all kinds.
    pub fn all_calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Returns `true` if engine and kernel agreed throughout.
    pub(crate) fn agreed(&self) -> bool {
        self.disagreements() == 0
    }

    /// Returns the result of the trace.
    pub fn verdict(&self) -> Verdict {
        if !self.agreed() {
            Verdict::Disagreed
        } else if self.results + self.maps == 0 {
            Verdict::Nothing
        } else if self.undecided_maps + self.undecided_results > 0 {
            Verdict::Undecided
        } else if self.not_followed.is_empty() && self.interrupted.is_none() {
            Verdict::Agreed
        } else {
            Verdict::NotAll
        }
    }

    /// Returns the number of disagreements of all kinds.
    pub fn disagreements(&self) -> u64 {
        self.wrong_results + self.wrong_predictions + self.wrong_maps + self.broken_invariants
    }

    /// Counts a result or a map that is undecided for this reason.
    pub fn note_undecided(&mut self, unknown: Unknown) {
        *self.undecided.entry(unknown.reason()).or_default() += 1;
    }

    /// Counts a disagreement. Keeps the first ones of each kind.
    pub fn find(&mut self, kind: FindingKind, make: impl FnOnce() -> Finding) {
        match kind {
            FindingKind::Result => self.wrong_results += 1,
            FindingKind::Prediction => self.wrong_predictions += 1,
            FindingKind::Map => self.wrong_maps += 1,
            FindingKind::Invariant => self.broken_invariants += 1,
        }
        if self.of_kind(kind).count() < KEPT {
            self.findings.push(make());
        }
    }

    fn of_kind(&self, kind: FindingKind) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.kind == kind)
    }

    /// Returns the first disagreement of each kind.
    pub fn first(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| {
            self.of_kind(finding.kind)
                .next()
                .is_some_and(|first| std::ptr::eq(first, *finding))
        })
    }
}

/// Adds one to the count of a name.
pub fn count(names: &mut BTreeMap<Box<str>, u64>, name: &str) {
    match names.get_mut(name) {
        Some(number) => *number += 1,
        None => {
            names.insert(name.into(), 1);
        }
    }
}
