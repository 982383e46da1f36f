//! Threads that stand still while another thread's call removes pages, or registers a range with a
//! userfaultfd.
//!
//! Without this, a write to pages that are about to be removed, between the tracer's look and the
//! kernel's part of the call, would leave only an invisible trace in the area. And another thread
//! could replace the userfaultfd behind a descriptor before the kernel looks. Only running threads
//! are stopped: a thread that sleeps in a call writes nothing, and some calls would return early.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use samara_linux::Tid;
use samara_linux::proc;
use samara_linux::ptrace::{self, Pace, Stop};
use samara_mm::Call;

use super::Tracer;
use super::task::{State, Task};
use crate::trace::interrupts;
use crate::trace::making::waits_for_others;

/// The pause between two checks for a dead thread.
const SHORTLY: Duration = Duration::from_micros(100);

/// The threads that stand still, and the thread for which they do.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The thread whose call is under way, and its address space.
    by: Option<(Tid, usize)>,
    /// The threads that were stopped for it, and will be resumed when its call has returned.
    still: Vec<Tid>,
    /// Stops of other threads that happened by themselves, and are answered later.
    stops: VecDeque<(Tid, Stop)>,
}

impl Hold {
    /// Returns the next stop: one that is already known, or else the next one reported.
    pub(super) fn next(&mut self, poll: bool) -> io::Result<Option<(Tid, Stop)>> {
        match self.stops.pop_front() {
            Some(stop) => Ok(Some(stop)),
            None => ptrace::wait(-1, poll),
        }
    }

    /// Takes the threads that stand still. The caller must resume or detach them.
    pub(super) fn take_still(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.still)
    }
}

/// Returns the next stop of a thread that has been interrupted. `None` if the thread is gone, or
/// cannot stop now.
///
/// A thread that waits for the child of its vfork cannot stop: the call under way may be that
/// child's. Like a thread that waits in exec for the others to end, it stops before it runs again.
/// The first thread of a process may be dead without a report until the others are.
fn interrupted(tid: Tid) -> Option<(Tid, Stop)> {
    loop {
        if let stop @ Some(_) = ptrace::wait(tid, true).ok()? {
            return stop;
        }
        if waits_for_others(tid) || proc::is_dead(tid) {
            // It sleeps, or has stopped since the last look.
            return ptrace::wait(tid, true).ok()?;
        }
        thread::yield_now();
    }
}

impl Tracer<'_> {
    /// Returns the next stop that must be answered.
    pub(super) fn next_stop(&mut self) -> io::Result<Option<(Tid, Stop)>> {
        let soon = std::mem::take(&mut self.returns_soon);
        let Some((by, index)) = self.hold.by else {
            return match self.hold.stops.pop_front() {
                Some(stop) => Ok(Some(stop)),
                None if !self.orphans.is_empty() => self.wait_beside_orphans(),
                None if soon => self.shortly.wait(-1),
                None => ptrace::wait(-1, false),
            };
        };
        let beside = |tid: &Tid| self.tasks.get(tid).and_then(|task| task.space) == Some(index);
        let stops = &mut self.hold.stops;
        // The call under way may wait for one of these.
        let next = stops.iter().position(|(tid, _)| *tid == by || !beside(tid));
        if let Some(next) = next {
            return Ok(stops.remove(next));
        }
        loop {
            // A thread that is killed again while it reports its end disappears without a report.
            // If it is the first thread of its process, the kernel reports nothing until the others
            // are gone, too. Those may wait here for its call to return.
            let may_be_lost = self.hold.stops.iter().any(|(_, stop)| stop.ends());
            let stop = ptrace::wait(-1, may_be_lost)?;
            match stop {
                None if may_be_lost && proc::is_dead(by) => {
                    return Ok(Some((by, Stop::Exiting)));
                }
                None if may_be_lost => thread::sleep(SHORTLY),
                // Answered now, it would run.
                Some((tid, _)) if tid != by && beside(&tid) => self.hold.stops.extend(stop),
                stop => return Ok(stop),
            }
        }
    }

    /// Collects accesses that found no page, as other threads have reported by stops that still
    /// wait, while the call of `tid` returns. They happened before the kernel's part of the call,
    /// or after it.
    pub(super) fn hear_others(&mut self, tid: Tid, index: usize) {
        if !matches!(&self.spaces[index], Some(space) if space.users > 1) {
            return;
        }
        // Asking each thread would take long where there are thousands.
        while let Ok(Some((other, stop))) = ptrace::wait(-1, true) {
            if other == self.main && matches!(stop, Stop::Exited(_) | Stop::Killed { .. }) {
                interrupts::program_ended();
            }
            self.hold.stops.push_back((other, stop));
        }
        let Some(space) = &mut self.spaces[index] else {
            return;
        };
        for (other, stop) in &self.hold.stops {
            if ptrace::tells_of_accesses(*stop)
                && *other != tid
                && self.tasks.get(other).and_then(|task| task.space) == Some(index)
                && let Some(address) = ptrace::accessed_in_vain(*other)
            {
                space.found_nothing(address, self.session);
            }
        }
    }

    /// Stops the other threads that run on address space `index`, until the call of `tid` returns.
    /// Returns `false` if that is not possible.
    pub(super) fn hold_others(&mut self, tid: Tid, index: usize) -> bool {
        if self.hold.by.is_some() || self.pace == Pace::Hold {
            return false;
        }
        self.hold.by = Some((tid, index));
        let beside = |(other, task): (&Tid, &Task)| {
            let runs = *other != tid
                && task.space == Some(index)
                && matches!(task.state, State::Running)
                && proc::is_running(*other);
            runs.then_some(*other)
        };
        let others: Vec<Tid> = self.tasks.iter().filter_map(beside).collect();
        for &other in &others {
            // A thread that is gone reports its end.
            let _ = ptrace::interrupt(other);
        }
        for other in others {
            match interrupted(other) {
                Some((_, Stop::Attached)) => self.hold.still.push(other),
                Some(stop) => self.hold.stops.push_back(stop),
                None => {}
            }
        }
        true
    }

    /// Looks at the pages once more, now that no thread changes them.
    pub(super) fn look_beside_held(&mut self, call: &Call, index: usize) {
        if let Some(space) = &mut self.spaces[index] {
            space.look_beside_held(call, self.session);
        }
    }

    /// Resumes the threads that stood still for `tid`.
    pub(super) fn let_others_run(&mut self, tid: Tid) {
        if self.hold.by.is_none_or(|(by, _)| by != tid) {
            return;
        }
        self.hold.by = None;
        for other in std::mem::take(&mut self.hold.still) {
            self.resume(other, 0);
        }
    }
}
