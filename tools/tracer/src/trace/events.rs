//! The loop over the kernel's reports about traced threads.
//!
//! # Rules
//! - Every stop is answered exactly once: resumed, held for the order of calls, or left to a group
//!   stop.
//! - Calls on one address space happen one at a time, in the order in which their threads arrive.

mod attached;
mod begin;
mod elsewhere;
mod hold;
mod lifetimes;
mod listeners;
mod orphans;
mod returned;
mod strict;
mod task;
mod unread;

use std::io;

use samara_linux::Tid;
use samara_linux::ptrace::{self, Pace, Stop};

use super::by_tid::ByTid;
use super::decode;
use super::entry::{Entry, entered, entry};
use super::filter::Filter;
use super::interrupts;
use super::session::Session;
use super::shortly::Shortly;
use super::space::Space;
use task::{State, Task};

/// The end of the program that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ended with this exit code.
    Code(i32),
    /// A signal killed it.
    Signal {
        /// The signal's number.
        number: i32,
        /// `true` if a core file was written.
        core: bool,
    },
    /// It was let go, and runs on.
    LetGo,
}

/// The reason why tracing stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program never reached its first instruction, so nothing was traced.
    NotStarted,
    /// The program is for another machine.
    OtherMachine(&'static str),
    Kernel(io::Error),
}

pub(crate) struct Tracer<'s> {
    main: Tid,
    pace: Pace,
    filter: Filter,
    tasks: ByTid<Task>,
    // Each ended space leaves only a few bytes here, because a server may make millions.
    spaces: Vec<Option<Box<Space>>>,
    session: &'s mut Session,
    started: bool,
    ending: Option<Ending>,
    /// Processes that outlive the program were asked to end.
    asked: bool,
    hold: hold::Hold,
    orphans: Vec<orphans::Orphan>,
    /// The last action let a call run, which will stop at its return.
    returns_soon: bool,
    shortly: Shortly,
}

impl<'s> Tracer<'s> {
    /// Creates a tracer for a program that was started under the filter.
    pub(crate) fn new(main: Tid, session: &'s mut Session) -> Self {
        let mut tracer = Self::with_pace(main, Pace::Filtered, session);
        tracer.tasks.insert(main, Task::new(main, State::Running));
        tracer
    }

    fn with_pace(main: Tid, pace: Pace, session: &'s mut Session) -> Self {
        session.tally.processes = 1;
        Self {
            main,
            pace,
            filter: Filter::new(),
            tasks: ByTid::default(),
            spaces: Vec::new(),
            session,
            started: false,
            ending: None,
            asked: false,
            hold: hold::Hold::default(),
            orphans: Vec::new(),
            returns_soon: false,
            shortly: Shortly::new(),
        }
    }

    /// Runs until the last traced process has ended.
    pub(crate) fn run(mut self) -> Result<Ending, Failure> {
        loop {
            match self.next_stop() {
                Ok(Some((tid, stop))) => self.stop(tid, stop)?,
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(error) => return Err(Failure::Kernel(error)),
            }
            // If there is always a stop to report, no signal interrupts a wait.
            self.own_signals();
            let session = &mut *self.session;
            session.progress.tick(&session.tally, self.tasks.len());
            if self.tasks.is_empty() {
                break;
            }
        }
        self.session.progress.finish();
        for space in self.spaces.iter_mut().filter_map(Option::take) {
            let mut space = space;
            self.session.tally.ended_unseen += u64::from(self.ending != Some(Ending::LetGo));
            space.end(self.session);
        }
        if !self.started {
            return Err(Failure::NotStarted);
        }
        self.ending.ok_or(Failure::NotStarted)
    }

    /// Handles a signal that arrived after the program's end: asks the processes that outlive it to
    /// end. Lets a process go that was attached to.
    fn own_signals(&mut self) {
        if !interrupts::arrived() {
            return;
        }
        if self.pace == Pace::EveryCall {
            return self.let_go();
        }
        // A process that ignored the first request gets a signal that cannot be ignored.
        let signal = if std::mem::replace(&mut self.asked, true) {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        let mut processes: Vec<Tid> = self.tasks.values().map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            // SAFETY: the call sends a signal to our own tracees.
            unsafe { libc::kill(process, signal) };
        }
    }

    fn stop(&mut self, tid: Tid, stop: Stop) -> Result<(), Failure> {
        match stop {
            Stop::Seccomp => match entry(tid, &self.filter) {
                Ok(entry) => self.enters(tid, entry),
                Err(_) => self.pace.go(tid, 0),
            },
            Stop::Call if self.tasks.get(&tid).is_some_and(|task| task.strict) => {
                self.strict_call(tid);
            }
            Stop::Call if self.pace == Pace::Filtered => self.call_returned(tid),
            Stop::Call => match entered(tid, &self.filter) {
                Ok(Some((entry, true))) => self.enters(tid, entry),
                Ok(Some((_, false))) => self.pace.go(tid, 0),
                _ => self.call_returned(tid),
            },
            Stop::Fork | Stop::Vfork | Stop::Clone => self.new_thread(tid),
            Stop::Exec => self.exec(tid)?,
            Stop::Exiting => {
                self.leave(tid, true);
                self.pace.go(tid, 0);
            }
            Stop::Attached => self.attached(tid),
            Stop::Group(_) => ptrace::listen(tid),
            Stop::Signal(signal) => {
                if ptrace::tells_of_accesses(stop) {
                    self.found_nothing(tid);
                }
                self.resume(tid, signal);
            }
            Stop::Other => self.resume(tid, 0),
            Stop::Exited(code) => self.ended(tid, Ending::Code(code)),
            Stop::Killed { signal, core } => self.ended(
                tid,
                Ending::Signal {
                    number: signal,
                    core,
                },
            ),
        }
        if !self.orphans.is_empty() {
            self.has_made_no_orphan(tid);
        }
        Ok(())
    }

    /// Handles the start of a call of interest. Notes the flags that describe its child, because
    /// the kernel may overwrite them.
    fn enters(&mut self, tid: Tid, entry: Entry) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.clone_flags = decode::clone3_flags(tid, &entry);
        }
        self.entry(tid, entry);
    }

    fn resume(&mut self, tid: Tid, signal: i32) {
        match self.tasks.get(&tid) {
            Some(task) if task.strict || matches!(task.state, State::InCall(_)) => {
                ptrace::resume_to_exit(tid, signal);
            }
            _ => self.pace.go(tid, signal),
        }
    }

    /// Notes an access that found no page: perhaps beyond the end of a file, or below an area that
    /// did not grow.
    fn found_nothing(&mut self, tid: Tid) {
        if let Some(index) = self.tasks.get(&tid).and_then(|task| task.space)
            && let Some(space) = &mut self.spaces[index]
            && let Some(address) = ptrace::accessed_in_vain(tid)
        {
            space.found_nothing(address, self.session);
        }
    }

    /// Returns a thread of `process`, or the thread with that number. Prefers threads that still
    /// have an address space, then the first thread.
    fn user(&self, process: Tid) -> Option<(Tid, &Task)> {
        self.tasks
            .iter()
            .map(|(tid, task)| (*tid, task))
            .filter(|(tid, task)| *tid == process || task.process == process)
            .max_by_key(|(tid, task)| (task.space.is_some(), *tid == process))
    }

    fn set_state(&mut self, tid: Tid, state: State) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.state = state;
        }
    }

    /// Ends the turn of a thread, and starts the next call that waits.
    fn release(&mut self, index: usize, tid: Tid) {
        self.let_others_run(tid);
        loop {
            let Some(space) = &mut self.spaces[index] else {
                return;
            };
            if space.holder == Some(tid) {
                space.holder = None;
            }
            if space.holder.is_some() {
                return;
            }
            let Some((next, entry)) = space.waiting.pop_front() else {
                return;
            };
            self.begin(next, entry, index);
        }
    }
}
