//! Processes that have stopped for the first time, while the event of their maker is missing.
//!
//! As a rule the maker's event comes at once. If the maker was killed before, nothing reports the
//! process, and it has another parent. That may be a followed process that never made it
//! (`PR_SET_CHILD_SUBREAPER`, the first process of a namespace). So the rules depend on the threads
//! that may be within a call that makes a process.
//!
//! # Rules
//! - The event of a new process is its maker's next stop. A thread that has stopped for another
//!   reason since is not the maker.
//! - A process is taken over in its current state once no thread is left that may have made it.

use std::io;
use std::time::{Duration, Instant};

use samara_linux::Tid;
use samara_linux::proc::{self};
use samara_linux::ptrace::{self, Stop};

use crate::record::Reason;
use crate::trace::making::{Making, making};
use crate::trace::seeding::Asked;

use super::Tracer;
use super::task::{State, Task};

/// The time to wait for the maker's event before any thread is examined.
const USUAL: Duration = Duration::from_millis(1);

/// A thread or process without an event of its maker.
#[derive(Debug)]
pub(super) struct Orphan {
    tid: Tid,
    since: Instant,
    /// The threads that may have made it, and have not stopped since. `None` if they have not been
    /// determined yet.
    makers: Option<Vec<Tid>>,
}

impl Tracer<'_> {
    /// Handles an unknown thread's stop. The thread is held until its maker reports it.
    pub(super) fn unannounced(&mut self, tid: Tid) {
        self.tasks.insert(tid, Task::new(tid, State::Unannounced));
        self.orphans.push(Orphan {
            tid,
            since: Instant::now(),
            makers: None,
        });
        self.adopt_orphans();
    }

    /// Returns the next stop while some threads are unannounced. If none comes, determines the
    /// threads that may have made them.
    pub(super) fn wait_beside_orphans(&mut self) -> io::Result<Option<(Tid, Stop)>> {
        loop {
            if let stop @ Some(_) = ptrace::wait(-1, true)? {
                return Ok(stop);
            }
            let unasked = |orphan: &&Orphan| orphan.makers.is_none();
            let Some(first) = self.orphans.iter().find(unasked) else {
                return ptrace::wait(-1, false);
            };
            if first.since.elapsed() >= USUAL {
                self.look_for_makers();
                self.adopt_orphans();
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    /// Notes the possible makers of orphans that have none noted yet. Threads that run are made to
    /// stop, to be sure.
    fn look_for_makers(&mut self) {
        let announced = |task: &Task| !matches!(task.state, State::Unannounced);
        let tasks = self.tasks.iter().filter(|(_, task)| announced(task));
        let mut makers = Vec::new();
        for (&tid, task) in tasks {
            match task.state {
                // It stands at the entry of its call, or has not begun to run.
                State::Held | State::Expected => {}
                _ => match making(tid) {
                    Making::No => {}
                    Making::Told => makers.push(tid),
                    Making::Perhaps => {
                        if ptrace::interrupt(tid).is_ok() {
                            makers.push(tid);
                        }
                    }
                },
            }
        }
        for orphan in self.orphans.iter_mut() {
            orphan.makers.get_or_insert_with(|| makers.clone());
        }
    }

    /// Notes that a thread has stopped without reporting a current orphan.
    pub(super) fn has_made_no_orphan(&mut self, tid: Tid) {
        for makers in self.orphans.iter_mut().filter_map(|it| it.makers.as_mut()) {
            makers.retain(|maker| *maker != tid);
        }
        self.adopt_orphans();
    }

    /// Takes over threads whose maker was killed before it could report them.
    fn adopt_orphans(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.retain(|orphan| {
            let task = self.tasks.get(&orphan.tid);
            let is_one = task.is_some_and(|task| matches!(task.state, State::Unannounced));
            is_one && !self.adopt(orphan)
        });
        self.orphans = orphans;
    }

    /// Takes over one of them, if it is time. Returns `true` if it did.
    fn adopt(&mut self, orphan: &Orphan) -> bool {
        let tid = orphan.tid;
        let Ok((process, _)) = proc::family(tid) else {
            return false;
        };
        let is_thread = process != tid;
        // For a thread, it suffices to know its process.
        if !is_thread && orphan.makers.as_ref().is_none_or(|it| !it.is_empty()) {
            return false;
        }
        let shared = self.shared_space(tid, is_thread.then_some(process));
        if is_thread && shared.is_none() {
            return false;
        }
        match is_thread {
            true => self.session.tally.threads += 1,
            false => self.session.tally.processes += 1,
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            *task = Task {
                space: shared,
                ..Task::new(process, State::Running)
            };
        }
        match shared.and_then(|index| self.spaces[index].as_mut()) {
            Some(space) => space.users += 1,
            None => self.start_space(tid, &Asked::of(tid), Reason::Adopted),
        }
        self.pace.go(tid, 0);
        true
    }

    /// Returns the address space that a thread shares with those of `process` or, without one, with
    /// any thread.
    fn shared_space(&self, tid: Tid, process: Option<Tid>) -> Option<usize> {
        // A thread that is about to exit has left its address space already.
        let users = self.tasks.iter().filter(|(_, task)| task.space.is_some());
        match process {
            Some(process) => {
                let mut mates = users.filter(|(_, task)| task.process == process);
                mates.next().and_then(|(_, task)| task.space)
            }
            None => {
                let mut asked = Vec::new();
                for (&user, task) in users {
                    if asked.contains(&task.space) {
                        continue;
                    }
                    asked.push(task.space);
                    if proc::is_same_memory(tid, user) {
                        return task.space;
                    }
                }
                None
            }
        }
    }
}
