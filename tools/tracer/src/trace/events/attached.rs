//! Processes that ran before: how they are taken over, and how they are let go.
//!
//! # Rules
//! - The address space is read while all its threads are stopped, and before any of them is
//!   answered.
//! - The process is let go without a trace of the tracer. Changed arguments of a call are restored,
//!   a pending signal is delivered, and a call that was not begun begins.

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

/// The time to wait for threads that cannot stop, such as the parent of a vfork before its child
/// continues.
const PATIENCE: Duration = Duration::from_secs(1);

impl<'s> Tracer<'s> {
    /// Takes over a process whose threads are all stopped, and resumes them.
    pub(crate) fn attached_to(attached: &Attached, session: &'s mut Session) -> Self {
        // What the process did before was not traced.
        exec::read_aside();
        let mut tracer = Self::with_pace(attached.process, Pace::EveryCall, session);
        tracer.started = true;
        let threads = &attached.threads;
        for (tid, _) in threads {
            let task = Task::new(attached.process, State::Running);
            tracer.tasks.insert(*tid, task);
        }
        tracer.session.tally.threads += threads.len() as u64 - 1;
        // The first thread may have ended before the others, and then shows nothing.
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
            // If one of them is in an exec, the other threads end, which is no failure.
            let _ = tracer.stop(tid, stop);
        }
        tracer
    }

    /// Takes over a child that was made just before, if it has its own address space.
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

    /// Stops every thread, compares the maps a last time, and lets all threads continue untraced.
    pub(super) fn let_go(&mut self) {
        self.pace = Pace::Hold;
        self.ending = Some(Ending::LetGo);
        // The stopped threads, each with the signal that it will get.
        let mut stopped: HashMap<Tid, i32> = HashMap::new();
        for space in self.spaces.iter_mut().flatten() {
            // These threads are at the entry of a call that has not begun.
            stopped.extend(space.waiting.drain(..).map(|(tid, _)| (tid, 0)));
        }
        stopped.extend(self.hold.take_still().into_iter().map(|tid| (tid, 0)));
        // These have not run yet either: their parent's event comes after their first stop.
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
            // A thread that has ended reports that.
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

    /// Does what a stop asks for, without answering it. Returns the signal that the thread will
    /// get, or `None` if the thread has ended.
    fn last_stop(&mut self, tid: Tid, stop: Stop) -> Option<i32> {
        match stop {
            Stop::Exited(_) | Stop::Killed { .. } => {
                self.leave(tid, false);
                self.tasks.remove(&tid);
                return None;
            }
            // The tracer no longer follows a call that begins.
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

    /// Compares the maps of address spaces whose threads are all stopped, so that no call can be
    /// under way.
    fn compare_stopped(&mut self, stopped: &HashMap<Tid, i32>) {
        for (index, space) in self.spaces.iter_mut().enumerate() {
            let Some(space) = space else { continue };
            let users = self
                .tasks
                .iter()
                .filter(|(_, task)| task.space == Some(index));
            let mut found = None;
            let mut all = true;
            for (tid, task) in users {
                all &= stopped.contains_key(tid);
                found = Some(Who {
                    tid: *tid,
                    process: task.process,
                });
            }
            if let Some(who) = found.filter(|_| all) {
                space.compare_changed(who, self.session, "the calls before it was let go");
            }
        }
    }
}
