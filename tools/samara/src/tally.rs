//! What is counted while a program is followed, live or from a record.

use std::collections::BTreeMap;

use crate::describe::KINDS;
use crate::outcome::{DISAGREED, INCOMPLETE};
use crate::record::Cut;
use crate::undecided::Unknown;

/// What kind of disagreement was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindingKind {
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
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// Number of the call, counted over the whole trace from 1.
    pub(crate) call_number: u64,
    pub(crate) process: i32,
    /// The call that caused it, in words.
    pub(crate) call: String,
    /// What engine and kernel say, in as many lines as it takes.
    pub(crate) detail: String,
}

/// So many disagreements of each kind are kept.
const KEPT: usize = 100;

/// What a trace comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agreed,
    Disagreed,
    /// No disagreement but such as something that could not be seen may have explained.
    Undecided,
    /// No disagreement, but there were processes that could not be followed, or the record was interrupted.
    NotAll,
    /// Not one map or result was compared.
    Nothing,
}

impl Verdict {
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Verdict::Agreed => 0,
            Verdict::Disagreed => DISAGREED,
            Verdict::Undecided | Verdict::NotAll | Verdict::Nothing => INCOMPLETE,
        }
    }
}

/// Counters of one trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Calls performed on the engine, by [`KINDS`].
    pub(crate) calls: [u64; KINDS.len()],
    /// Calls of the program that failed, as the kernel said and the engine too.
    pub(crate) failing: u64,
    pub(crate) results: u64,
    pub(crate) wrong_results: u64,
    pub(crate) predictions: u64,
    pub(crate) wrong_predictions: u64,
    /// Addresses that the kernel draws by lot, so that nobody can predict them.
    pub(crate) random: u64,
    pub(crate) maps: u64,
    /// Maps of those of which only what a call can have changed was compared.
    pub(crate) parts: u64,
    pub(crate) wrong_maps: u64,
    /// Maps that differ where [something is not known](Unknown), which may have explained them.
    pub(crate) undecided_maps: u64,
    /// The same of results.
    pub(crate) undecided_results: u64,
    /// Both, by what is not known.
    pub(crate) undecided: BTreeMap<&'static str, u64>,
    pub(crate) broken_invariants: u64,
    /// Areas of all compared maps.
    pub(crate) areas_compared: u64,
    /// Calls that the engine does not model, by name.
    pub(crate) unmodelled: BTreeMap<Box<str>, u64>,
    /// Calls that failed for a reason that no address space decides (a driver, I/O), by name.
    pub(crate) outside: BTreeMap<Box<str>, u64>,
    /// Calls that were not compared, since they concern what is not known of the start. `None`: all is known.
    pub(crate) on_unknown: Option<u64>,
    /// The engine was started anew from the kernel's map, by reason.
    pub(crate) resyncs: BTreeMap<&'static str, u64>,
    /// A page was written by another thread while the call was under way; the kernel's map told when.
    pub(crate) ambiguous: u64,
    /// Facts asked for that had not been sampled.
    pub(crate) unsampled: u64,
    /// Names that changed while the file was mapped.
    pub(crate) renamed: u64,
    pub(crate) grown: u64,
    pub(crate) forks: u64,
    pub(crate) execs: u64,
    /// Those whose map was predicted from the files, and compared.
    pub(crate) execs_predicted: u64,
    pub(crate) processes: u64,
    pub(crate) threads: u64,
    /// Processes that were not followed, or not to their end, by reason.
    pub(crate) not_followed: BTreeMap<Box<str>, u64>,
    /// The record of the program was interrupted here: the rest is not known.
    pub(crate) interrupted: Option<Cut>,
    pub(crate) ended_unseen: u64,
    /// Requests to trace a thread that were refused: it has a tracer already, this one.
    pub(crate) tracers_refused: u64,
    pub(crate) spaces: SpaceTotals,
    pub(crate) findings: Vec<Finding>,
}

/// Figures of the engines, summed up or at their largest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SpaceTotals {
    /// Calls performed on engines under another assumption about the order of faults.
    pub(crate) alternatives: u64,
    /// Such engines that nothing had refuted, but that were too many or had been followed for too long.
    pub(crate) given_up: u64,
    pub(crate) merges: u64,
    pub(crate) splits: u64,
    pub(crate) areas_peak: u64,
    /// Of the main program's last address space, when it ended.
    pub(crate) main: SpaceFigures,
    /// Of the largest.
    pub(crate) largest: SpaceFigures,
}

/// The state of one engine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SpaceFigures {
    pub(crate) areas: u64,
    pub(crate) areas_peak: u64,
    pub(crate) gaps: u64,
    pub(crate) largest_gap: u64,
    pub(crate) mapped: u64,
    pub(crate) tree_height: u64,
    pub(crate) tree_bytes: u64,
}

impl Tally {
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Did engine and kernel agree throughout?
    pub(crate) fn agreed(&self) -> bool {
        self.disagreements() == 0
    }

    /// What the trace comes to.
    pub(crate) fn verdict(&self) -> Verdict {
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

    pub(crate) fn disagreements(&self) -> u64 {
        self.wrong_results + self.wrong_predictions + self.wrong_maps + self.broken_invariants
    }

    /// Counts a result or a map that is undecided since this is not known.
    pub(crate) fn note_undecided(&mut self, unknown: Unknown) {
        *self.undecided.entry(unknown.reason()).or_default() += 1;
    }

    /// Notes a disagreement; the first few of each kind are kept.
    pub(crate) fn find(&mut self, kind: FindingKind, make: impl FnOnce() -> Finding) {
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

    /// The first of each kind.
    pub(crate) fn first(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| {
            self.of_kind(finding.kind)
                .next()
                .is_some_and(|first| std::ptr::eq(first, *finding))
        })
    }
}

/// Counts one more of a name.
pub(crate) fn count(names: &mut BTreeMap<Box<str>, u64>, name: &str) {
    match names.get_mut(name) {
        Some(number) => *number += 1,
        None => {
            names.insert(name.into(), 1);
        }
    }
}
