//! What all traced address spaces share: settings, files, counters, the record, the scratch map.

use std::io::{self, Write};

use samara_mm::{Call, Facts};

use crate::describe::{Described, Returned};
use crate::maps::Map;
use crate::record::Writer;
use crate::tally::Tally;

use super::facts::Pagemap;
use super::files::Files;
use super::options::Verify;
use super::ptrace::Tid;
use super::seeding::Machine;

pub(crate) struct Session {
    pub(crate) verify: Verify,
    pub(crate) check: bool,
    pub(crate) calls: bool,
    pub(crate) machine: Machine,
    pub(crate) files: Files,
    pub(crate) tally: Tally,
    pub(crate) record: Option<Writer>,
    /// The kernel's map of whatever space is looked at.
    pub(crate) map: Map,
    pub(crate) grown: Vec<u64>,
    pub(crate) call_number: u64,
    next_space: u32,
}

impl Session {
    pub(crate) fn new(verify: Verify, check: bool, calls: bool, record: Option<Writer>) -> Self {
        Self {
            verify,
            check,
            calls,
            machine: Machine::look(),
            files: Files::default(),
            tally: Tally::default(),
            record,
            map: Map::default(),
            grown: Vec::new(),
            call_number: 0,
            next_space: 0,
        }
    }

    pub(crate) fn new_space_number(&mut self) -> u32 {
        self.next_space += 1;
        self.next_space - 1
    }

    /// One line for a call, if asked for.
    pub(crate) fn print_call(&self, tid: Tid, call: &Call, returned: i64) {
        if self.calls {
            say(&format!(
                "[{tid}] {} = {}",
                Described(call),
                Returned(returned)
            ));
        }
    }

    /// One line for something else that happened, if calls are printed.
    pub(crate) fn print_event(&self, tid: Tid, text: &str) {
        if self.calls {
            say(&format!("[{tid}] {text}"));
        }
    }
}

/// A line on standard error. That it may be closed or full is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Ranges of pages that were looked at before a call, and whether they held anonymous memory.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    list: Vec<Sample>,
    /// Asked for without having been sampled.
    missed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    start: u64,
    end: u64,
    written: bool,
}

impl Samples {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Looks at a range now.
    pub(crate) fn take(&mut self, start: u64, end: u64, pagemap: &mut Pagemap) {
        let written = pagemap.written(start, end).unwrap_or(false);
        self.list.push(Sample {
            start,
            end,
            written,
        });
    }

    /// Looks again at what was not written. True if something is now.
    pub(crate) fn changed(&mut self, pagemap: &mut Pagemap, later: &mut Samples) -> bool {
        later.list.clear();
        let mut changed = false;
        for sample in &self.list {
            let mut sample = *sample;
            if !sample.written {
                sample.written = pagemap.written(sample.start, sample.end).unwrap_or(false);
                changed |= sample.written;
            }
            later.list.push(sample);
        }
        changed
    }

    /// The ranges that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        self.list
            .iter()
            .filter(|sample| sample.written)
            .map(|sample| (sample.start, sample.end))
    }

    pub(crate) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

impl Facts for Samples {
    fn written(&mut self, start: u64, end: u64) -> bool {
        let exact = self
            .list
            .iter()
            .find(|sample| sample.start == start && sample.end == end);
        if let Some(sample) = exact {
            return sample.written;
        }
        self.missed += 1;
        self.list
            .iter()
            .any(|sample| sample.written && sample.start < end && sample.end > start)
    }
}
