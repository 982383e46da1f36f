//! Threads that stand still while another's call takes pages away, or tells a userfaultfd what to watch.
//!
//! Writes to pages that are taken away, between the look at a call's entry and the kernel's part of
//! the call, would leave no trace except in the area, where nothing shows it. And other threads
//! could exchange the userfaultfd of a descriptor before the kernel looks. Only running threads are
//! stopped: a thread that sleeps in a call writes nothing, and some calls would return early.

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

/// Between two looks at whether a thread is dead.
const SHORTLY: Duration = Duration::from_micros(100);

/// The threads that stand still, and the call for which they do.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The thread whose call is under way, and its address space.
    by: Option<(Tid, usize)>,
    /// Stopped for it, to be let run when it has returned.
    still: Vec<Tid>,
    /// Stops of other threads for reasons of their own: answered later.
    stops: VecDeque<(Tid, Stop)>,
}

impl Hold {
    /// The next stop, of those that were heard of already, or else of those to come.
    pub(super) fn next(&mut self, poll: bool) -> io::Result<Option<(Tid, Stop)>> {
        match self.stops.pop_front() {
            Some(stop) => Ok(Some(stop)),
            None => ptrace::wait(-1, poll),
        }
    }

    /// Takes the threads that stand still. The caller must let them go on.
    pub(super) fn take_still(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.still)
    }
}

/// Returns the next stop of a thread that has been interrupted. Returns `None` if it is gone, or
/// cannot stop now. One that sleeps until the child of its vfork goes on, which may be the thread
/// whose call is under way, stops before it runs again. So does one that waits in exec for the
/// others to end. The first thread of a process may be dead, and is not reported before the others
/// are.
fn interrupted(tid: Tid) -> Option<(Tid, Stop)> {
    loop {
        if let stop @ Some(_) = ptrace::wait(tid, true).ok()? {
            return stop;
        }
        if waits_for_others(tid) || proc::is_dead(tid) {
            // Asleep, or stopped since.
            return ptrace::wait(tid, true).ok()?;
        }
        thread::yield_now();
    }
}

impl Tracer<'_> {
    /// The next stop to be answered.
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
        // The call that is under way may wait for one of these.
        let next = stops.iter().position(|(tid, _)| *tid == by || !beside(tid));
        if let Some(next) = next {
            return Ok(stops.remove(next));
        }
        loop {
            // A thread that is killed once more while it reports its end disappears without a
            // report. If it is the first of its threads, nothing is reported of it until the others
            // are gone, too, and these may wait here for its call to return.
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

    /// Handles the stops of other threads than `tid`, whose call returns. They may have reported
    /// accesses in vain, which came before the kernel's part of the call, or after.
    pub(super) fn hear_others(&mut self, tid: Tid, index: usize) {
        if !matches!(&self.spaces[index], Some(space) if space.users > 1) {
            return;
        }
        // To ask each thread would take long where there are thousands.
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

    /// Stops the other running threads of address space `index` until the call of `tid` returns.
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
            // One that is gone reports its end.
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

    /// Reads the pages once more, while no thread changes them.
    pub(super) fn look_beside_held(&mut self, call: &Call, index: usize) {
        if let Some(space) = &mut self.spaces[index] {
            space.look_beside_held(call, self.session);
        }
    }

    /// Lets those run that stood still for `tid`.
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
