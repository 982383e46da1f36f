//! A process that ran before: how it is taken over, and how it is let go.
//!
//! # Rules
//! - Its address space is read while all its threads are stopped, and before any of them is answered.
//! - It is detached in a state that shows no trace: changed arguments of a call are restored, a
//!   signal on its way is delivered, and a call that was held at its entry begins.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use samara_linux::Tid;
use samara_linux::ptrace::{self, Pace, Stop};

use crate::record::Reason;
use crate::trace::attach::Attached;
use crate::trace::exec;
use crate::trace::seeding::Asked;
use crate::trace::session::Session;
use crate::trace::space::Who;

use super::lifetimes::clone_flags;
use super::task::{State, Task};
use super::{Ending, Tracer};

/// The time to wait for threads that cannot stop, as the parent of a vfork until its child has gone
/// on.
const PATIENCE: Duration = Duration::from_secs(1);

impl<'s> Tracer<'s> {
    /// Takes over a process of which all threads are stopped, and lets it run on.
    pub(crate) fn attached_to(attached: &Attached, session: &'s mut Session) -> Self {
        // Its history before the trace is unknown.
        exec::read_aside();
        let mut tracer = Self::with_pace(attached.process, Pace::EveryCall, session);
        tracer.started = true;
        let threads = &attached.threads;
        for (tid, _) in threads {
            let task = Task::new(attached.process, State::Running);
            tracer.tasks.insert(*tid, task);
        }
        tracer.session.tally.threads += threads.len() as u64 - 1;
        // The first thread may have ended before the others, and shows nothing then.
        let first = threads[0].0;
        tracer.start_space(first, &Asked::of(first), Reason::Adopted);
        let index = tracer.tasks.get(&first).and_then(|task| task.space);
        if let Some(index) = index
            && let Some(space) = &mut tracer.spaces[index]
        {
            space.users = threads.len() as u32;
            space.main = true;
            for task in tracer.tasks.values_mut() {
                task.space = Some(index);
            }
        }
        for &(tid, stop) in threads {
            tracer.take_child(tid, stop);
        }
        for &(tid, stop) in threads {
            // An exec among them is an end of the others, but no failure.
            let _ = tracer.stop(tid, stop);
        }
        tracer
    }

    /// A child that was made just before: its address space is its own by now.
    fn take_child(&mut self, tid: Tid, stop: Stop) {
        if !matches!(stop, Stop::Fork | Stop::Vfork | Stop::Clone) {
            return;
        }
        let Ok(child) = ptrace::event_message(tid) else {
            return;
        };
        let child = child as Tid;
        let shares = clone_flags(tid, None) & libc::CLONE_VM as u64 != 0;
        if shares
            || self.tasks.contains_key(&child)
            || !matches!(ptrace::wait(child, false), Ok(Some((_, Stop::Attached))))
        {
            return;
        }
        self.session.tally.processes += 1;
        self.tasks.insert(child, Task::new(child, State::Running));
        self.start_space(child, &Asked::of(child), Reason::Adopted);
        self.pace.go(child, 0);
    }

    /// Stops every thread, compares the maps a last time, and lets all of them run on by themselves.
    pub(super) fn let_go(&mut self) {
        self.pace = Pace::Hold;
        self.ending = Some(Ending::LetGo);
        // Stopped, and the signal that each is to get.
        let mut stopped: HashMap<Tid, i32> = HashMap::new();
        for space in self.spaces.iter_mut().flatten() {
            // They are at the entry of a call that has not begun.
            stopped.extend(space.waiting.drain(..).map(|(tid, _)| (tid, 0)));
        }
        stopped.extend(self.hold.take_still().into_iter().map(|tid| (tid, 0)));
        // Nor have these begun to run: their parent's event comes after their first stop.
        let unannounced = |task: &Task| matches!(task.state, State::Unannounced);
        let unannounced = self.tasks.iter().filter(|(_, task)| unannounced(task));
        stopped.extend(unannounced.map(|(&tid, _)| (tid, 0)));
        for &tid in stopped.keys() {
            if let Some(task) = self.tasks.get_mut(&tid)
                && std::mem::take(&mut task.untraced)
            {
                let _ = ptrace::set_untraced(tid, true);
            }
        }
        for &tid in self.tasks.keys().filter(|tid| !stopped.contains_key(tid)) {
            // One that has ended reports that.
            let _ = ptrace::interrupt(tid);
        }
        let begun = Instant::now();
        while self.tasks.keys().any(|tid| !stopped.contains_key(tid)) && begun.elapsed() < PATIENCE
        {
            match self.hold.next(true) {
                Ok(Some((tid, stop))) => match self.last_stop(tid, stop) {
                    Some(signal) => drop(stopped.insert(tid, signal)),
                    None => drop(stopped.remove(&tid)),
                },
                Ok(None) => sleep(Duration::from_millis(1)),
                Err(_) => break,
            }
        }
        self.compare_stopped(&stopped);
        for (tid, signal) in stopped {
            ptrace::detach(tid, signal);
            self.tasks.remove(&tid);
        }
        while !self.tasks.is_empty() {
            match self.hold.next(false) {
                Ok(Some((tid, stop))) => {
                    if let Some(signal) = self.last_stop(tid, stop) {
                        ptrace::detach(tid, signal);
                        self.tasks.remove(&tid);
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        self.tasks.clear();
    }

    /// Does what a stop asks for, but does not answer it. `None`: the thread has ended; else the signal that it is to get.
    fn last_stop(&mut self, tid: Tid, stop: Stop) -> Option<i32> {
        match stop {
            Stop::Exited(_) | Stop::Killed { .. } => {
                self.leave(tid, false);
                self.tasks.remove(&tid);
                return None;
            }
            // A call that begins is not for us any more.
            Stop::Call if ptrace::result(tid).is_ok() => self.call_returned(tid),
            Stop::Fork | Stop::Vfork | Stop::Clone => self.new_thread(tid),
            Stop::Exec => {
                let _ = self.exec(tid);
            }
            Stop::Exiting => self.leave(tid, true),
            _ => {}
        }
        self.tasks
            .entry(tid)
            .or_insert_with(|| Task::new(tid, State::Running));
        Some(stop.signal())
    }

    /// Compares the maps of address spaces of which all threads are stopped, so that no call can be under way.
    fn compare_stopped(&mut self, stopped: &HashMap<Tid, i32>) {
        for (index, space) in self.spaces.iter_mut().enumerate() {
            let Some(space) = space else { continue };
            let users = self
                .tasks
                .iter()
                .filter(|(_, task)| task.space == Some(index));
            let mut somebody = None;
            let mut all = true;
            for (tid, task) in users {
                all &= stopped.contains_key(tid);
                somebody = Some(Who {
                    tid: *tid,
                    process: task.process,
                });
            }
            if let Some(who) = somebody.filter(|_| all) {
                space.compare_changed(who, self.session, "the calls before it was let go");
            }
        }
    }
}
