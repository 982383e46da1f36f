//! What all traced address spaces share: settings, files, counters, the record, the scratch map.

use std::cell::LazyCell;
use std::io::{self, Write};

use samara_conformance::describe::{Described, Returned};
use samara_conformance::names::printable;
use samara_conformance::tally::Tally;
use samara_linux::Tid;
use samara_linux::maps::Map;
use samara_mm::{Call, KernelVersion};

use crate::record::Writer;

use super::files::Files;
use super::options::{TraceOptions, Verify};
use super::seeding::Machine;
use super::watchers::Watchers;

pub(crate) struct Session {
    pub(crate) verify: Verify,
    pub(crate) check: bool,
    pub(crate) calls: bool,
    /// Looked at when it is first needed, or while the program starts.
    pub(crate) machine: LazyCell<Machine, Box<dyn FnOnce() -> Machine>>,
    pub(crate) files: Files,
    pub(crate) watchers: Watchers,
    pub(crate) tally: Tally,
    pub(crate) record: Option<Writer>,
    /// The kernel's map of whatever space is looked at.
    pub(crate) map: Map,
    pub(crate) grown: Vec<u64>,
    pub(crate) call_number: u64,
    next_space: u32,
}

impl Session {
    pub(crate) fn new(
        options: &TraceOptions,
        kernel: KernelVersion,
        record: Option<Writer>,
    ) -> Self {
        Self {
            verify: options.verify,
            check: options.check,
            calls: options.calls,
            machine: LazyCell::new(Box::new(move || Machine::look(kernel))),
            files: Files::seen_by(kernel),
            watchers: Watchers::default(),
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

/// Prints lines on standard error. That it may be closed or full is no reason to fail.
pub(crate) fn say(lines: &str) {
    let printed: Vec<_> = lines.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr().lock(), "{}", printed.join("\n"));
}
