//! The state that all traced address spaces share: settings, files, counters, the record, the
//! scratch map.

use std::cell::LazyCell;

use samara_conformance::describe::{Described, Returned};
use samara_conformance::tally::Tally;
use samara_linux::Tid;
use samara_linux::maps::Map;
use samara_mm::{Call, KernelVersion};

use crate::record::Writer;
use crate::tell::say;

use super::files::Files;
use super::seeding::Machine;
use super::watchers::Watchers;

/// The moments at which whole maps are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// After every call.
    Each,
    /// After each of this many calls of an address space, and at exec and exit.
    Every(u64),
    /// At exec and exit.
    Exit,
}

/// The choice of what a trace compares and prints.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The moments at which whole maps are compared.
    pub verify: Verify,
    /// Every invariant of the engine is checked at each comparison of maps.
    pub check: bool,
    /// Each call is printed with its result, on standard error.
    pub calls: bool,
}

/// A display of a trace's progress.
pub trait Progress {
    /// Shows the progress, if it is time to. Called after each event, with the number of threads.
    fn tick(&mut self, tally: &Tally, threads: usize);
    /// Removes the display.
    fn finish(&self);
}

/// The state that all address spaces of one trace share.
pub struct Session {
    pub(crate) verify: Verify,
    pub(crate) check: bool,
    pub(crate) calls: bool,
    /// Looked up when it is first needed, or while the program starts.
    pub(crate) machine: LazyCell<Machine, Box<dyn FnOnce() -> Machine>>,
    pub(crate) files: Files,
    pub(crate) watchers: Watchers,
    /// The counters and findings.
    pub tally: Tally,
    /// The recording, if one is written.
    pub record: Option<Writer>,
    /// A scratch map: the kernel's map of the space that was read last.
    pub(crate) map: Map,
    pub(crate) grown: Vec<u64>,
    pub(crate) call_number: u64,
    next_space: u32,
    pub(super) progress: Box<dyn Progress>,
}

impl Session {
    /// Creates the state before a trace. `kernel` is the running one, whose rules the engine
    /// follows.
    pub fn new(
        settings: &Settings,
        kernel: KernelVersion,
        record: Option<Writer>,
        progress: Box<dyn Progress>,
    ) -> Self {
        Self {
            verify: settings.verify,
            check: settings.check,
            calls: settings.calls,
            progress,
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

    /// Prints one line for a call, if calls are printed.
    pub(crate) fn print_call(&self, tid: Tid, call: &Call, returned: i64) {
        if self.calls {
            say(&format!(
                "[{tid}] {} = {}",
                Described(call),
                Returned(returned)
            ));
        }
    }

    /// Prints one line for another event, if calls are printed.
    pub(crate) fn print_event(&self, tid: Tid, text: &str) {
        if self.calls {
            say(&format!("[{tid}] {text}"));
        }
    }
}
