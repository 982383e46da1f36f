//! Threads and processes that come and go, and which address space each uses.
//!
//! # Rules
//! - A new thread may report its first stop before the event of the thread that made it: it is held until that comes.
//! - At exec all other threads of the process are gone, and the one that called has the process's number from then on, whatever
//!   it had before. Nothing else tells of their end.
//! - A thread can be killed in any state. Its exit event is the last moment at which its address space can be looked at.

use std::io;

use samara_linux::Tid;
use samara_linux::memory;
use samara_linux::ptrace;

use crate::record::Reason;
use crate::trace::exec::Contents;
use crate::trace::i386;
use crate::trace::seeding::Asked;
use crate::trace::space::{BEFORE_EXIT, Space, Who};
use crate::trace::{interrupts, launch};

use super::listeners::UNSEEN;
use super::task::{Doing, State, Task, Told};
use super::{Ending, Failure, Tracer};

impl Tracer<'_> {
    /// A thread has made another.
    pub(super) fn new_thread(&mut self, tid: Tid) {
        let Ok(child) = ptrace::event_message(tid) else {
            self.pace.go(tid, 0);
            return;
        };
        let child = child as Tid;
        let noted = self.tasks.get(&tid).and_then(|task| task.clone_flags);
        let flags = clone_flags(tid, noted);
        let parent = self.tasks.get_mut(&tid).map(|task| {
            let forking = matches!(task.state, State::InCall(Doing::Fork));
            if forking || matches!(task.state, State::InCall(Doing::Thread)) {
                task.state = State::Running;
            }
            let untraced = std::mem::take(&mut task.untraced);
            let new_namespace = flags & libc::CLONE_NEWUSER as u64 != 0;
            let standing = task.standing.filter(|_| !new_namespace);
            let unseen = task.unseen;
            (
                task.process,
                task.space,
                forking,
                untraced,
                standing,
                unseen,
            )
        });
        let (parent_process, space, forking, untraced, standing, unseen) =
            parent.unwrap_or((tid, None, false, false, None, false));
        if untraced {
            let _ = ptrace::set_untraced(tid, true);
        }
        let is_thread = flags & libc::CLONE_THREAD as u64 != 0;
        let shares = flags & libc::CLONE_VM as u64 != 0;
        let process = if is_thread { parent_process } else { child };
        // A process that was taken over without its parent's event stays unchanged.
        let adopted = self
            .tasks
            .get(&child)
            .is_some_and(|task| !matches!(task.state, State::Unannounced));
        if !adopted {
            let space = match space {
                Some(index) if shares => Some(index),
                Some(index) => {
                    let who = Who {
                        tid,
                        process: parent_process,
                    };
                    self.forked(index, who, child)
                }
                None => None,
            };
            if let Some(index) = space
                && let Some(space) = &mut self.spaces[index]
            {
                space.users += 1;
            }
            if is_thread {
                self.session.tally.threads += 1;
            } else {
                self.session.tally.processes += 1;
            }
            let known = self.tasks.contains_key(&child);
            self.tasks.insert(
                child,
                Task {
                    space,
                    untraced: untraced && !known,
                    standing,
                    unseen,
                    ..Task::new(
                        process,
                        if known {
                            State::Running
                        } else {
                            State::Expected
                        },
                    )
                },
            );
            if known {
                if untraced {
                    let _ = ptrace::set_untraced(child, true);
                }
                self.pace.go(child, 0);
            }
        }
        self.pace.go(tid, 0);
        if forking && let Some(index) = space {
            self.release(index, tid);
        }
    }

    fn forked(&mut self, index: usize, who: Who, child: Tid) -> Option<usize> {
        self.session.tally.forks += 1;
        let space = self.spaces[index].as_mut()?;
        self.session
            .print_event(who.tid, &format!("fork() = {child}"));
        match space.fork(who, child, self.session) {
            Ok(space) => {
                self.spaces.push(Some(Box::new(space)));
                Some(self.spaces.len() - 1)
            }
            // The child was killed before it ran.
            Err(error) if is_gone(&error) => {
                self.session.tally.ended_unseen += 1;
                None
            }
            Err(error) => {
                self.not_followed(&error);
                None
            }
        }
    }

    /// A process has replaced its program.
    pub(super) fn exec(&mut self, tid: Tid) -> Result<(), Failure> {
        self.session.tally.execs += 1;
        let former = ptrace::event_message(tid).map_or(tid, |former| former as Tid);
        let caller = self.tasks.get(&former);
        let unseen = caller.is_some_and(|task| task.unseen);
        let space = caller.and_then(|task| self.spaces[task.space?].as_deref());
        // Older kernels do not tell.
        let merges_any =
            self.session.machine.keeps_memory_merge() && space.is_some_and(Space::merges_any);
        let mdwe = space.map_or_else(|| self.session.machine.mdwe(), Space::mdwe_at_exec);
        let others: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(other, task)| task.process == tid && **other != tid)
            .map(|(other, _)| *other)
            .collect();
        if former != tid {
            self.leave(tid, false);
        }
        for other in others {
            self.leave(other, false);
            self.tasks.remove(&other);
        }
        self.leave(tid, false);
        let task = self
            .tasks
            .entry(tid)
            .or_insert_with(|| Task::new(tid, State::Running));
        *task = Task {
            unseen,
            ..Task::new(tid, State::Running)
        };

        let program = Contents::of_program(tid);
        let head = program.as_ref().and_then(|it| it.head().get(..20));
        let refused = head.and_then(|head| launch::refuse_other_machines(head).err());
        if let Some(what) = refused {
            if !self.started {
                // SAFETY: ends our own child, of which nothing has run yet.
                unsafe { libc::kill(tid, libc::SIGKILL) };
                return Err(Failure::OtherMachine(what));
            }
            samara_conformance::tally::count(&mut self.session.tally.not_followed, what);
        } else {
            let mut asked = Asked::running(tid, program);
            // What the kernel tells is right: another who has shared the memory may have changed it since exec looked.
            asked.merges_any.get_or_insert(merges_any);
            self.start_space(tid, &asked, Reason::Exec);
            let task = self.tasks.get(&tid);
            if let Some(index) = task.and_then(|task| task.space)
                && let Some(space) = &mut self.spaces[index]
            {
                space.set_mdwe(mdwe, self.session);
                if unseen {
                    space.give_up(&io::Error::other(UNSEEN), self.session);
                }
            }
        }
        self.started = true;
        self.session.print_event(tid, "exec");
        self.pace.go(tid, 0);
        Ok(())
    }

    /// Gives a process an address space read from the kernel.
    pub(super) fn start_space(&mut self, tid: Tid, asked: &Asked, reason: Reason) {
        match Space::begin(tid, asked, reason, self.session) {
            Ok(mut space) => {
                space.users = 1;
                space.main = tid == self.main;
                self.spaces.push(Some(Box::new(space)));
                let index = self.spaces.len() - 1;
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.space = Some(index);
                    // One that ran before may be in the midst of a call that changes it.
                    task.standing = (reason == Reason::Exec).then_some(asked.standing);
                }
            }
            Err(error) if is_gone(&error) => self.session.tally.ended_unseen += 1,
            Err(error) => self.not_followed(&error),
        }
    }

    fn not_followed(&mut self, error: &io::Error) {
        let why = format!("process whose map could not be read: {error}");
        samara_conformance::tally::count(&mut self.session.tally.not_followed, &why);
    }

    /// A thread's first stop, or the end of a group stop.
    pub(super) fn attached(&mut self, tid: Tid) {
        match self.tasks.get_mut(&tid) {
            Some(task) => {
                if matches!(task.state, State::Expected) {
                    task.state = State::Running;
                    if std::mem::take(&mut task.untraced) {
                        let _ = ptrace::set_untraced(tid, true);
                    }
                }
                if matches!(task.state, State::Unannounced) {
                    return;
                }
                self.resume(tid, 0);
            }
            None => self.unannounced(tid),
        }
    }

    /// A thread leaves its address space: it is about to exit (`stopped`: the map can still be read), is gone, or has exec'ed.
    pub(super) fn leave(&mut self, tid: Tid, stopped: bool) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            return;
        };
        let Some(index) = task.space.take() else {
            return;
        };
        let who = Who {
            tid,
            process: task.process,
        };
        let state = std::mem::replace(&mut task.state, State::Running);
        // It was killed within the call, which may have changed them all the same.
        match state {
            State::InCall(Doing::Limits { target, .. }) => self.limits_changed(target),
            State::InCall(Doing::Elsewhere { index, .. }) => {
                if let Some(space) = &mut self.spaces[index] {
                    space.interrupt(None);
                }
            }
            _ => {}
        }
        if matches!(
            state,
            State::Held | State::InCall(Doing::Limits { .. } | Doing::Elsewhere { .. })
        ) {
            self.leave_orders(tid, index);
        }
        let Some(space) = &mut self.spaces[index] else {
            return;
        };
        space.users -= 1;
        space.forget_urings_of(tid);
        let in_call = space.holder == Some(tid);
        if in_call {
            let call = match &state {
                State::InCall(Doing::Perform(call)) => Some(call),
                _ => None,
            };
            space.interrupt(call);
        }
        if space.users == 0 {
            if stopped {
                let holder = space.holder.and_then(|holder| self.tasks.get(&holder));
                match holder.map(|task| &task.state) {
                    Some(State::InCall(Doing::Elsewhere { told, .. })) => match told {
                        Told::Perform(call) => space.compare_beside(call, who, self.session),
                        // Whether the kernel has come to it, nothing tells.
                        Told::Unmodelled(_) => {}
                    },
                    _ => space.compare_changed(who, self.session, BEFORE_EXIT),
                }
            }
            space.end(self.session);
            // Those of other processes, whose calls have nothing more to wait for here.
            let waiting = std::mem::take(&mut space.waiting);
            self.spaces[index] = None;
            self.session.files.release();
            for (tid, entry) in waiting {
                self.entry(tid, entry);
            }
        } else if in_call {
            self.release(index, tid);
        }
    }

    /// A thread waits no longer for its turn, and has none among the calls of others. (Its turn in `own` is looked after by who calls.)
    fn leave_orders(&mut self, tid: Tid, own: usize) {
        for index in 0..self.spaces.len() {
            let Some(space) = &mut self.spaces[index] else {
                continue;
            };
            space.waiting.retain(|(waiting, _)| *waiting != tid);
            if index != own && space.holder == Some(tid) {
                self.release(index, tid);
            }
        }
        // The address space for which it called may have gone.
        self.let_others_run(tid);
    }

    pub(super) fn ended(&mut self, tid: Tid, ending: Ending) {
        if self
            .tasks
            .get(&tid)
            .is_some_and(|task| task.space.is_some())
        {
            self.session.tally.ended_unseen += 1;
        }
        self.leave(tid, false);
        let task = self.tasks.remove(&tid);
        // Nothing tells of the end of a process whose first thread had ended before it was attached
        // to: its last thread does.
        let leaderless = || {
            !self.tasks.contains_key(&self.main)
                && task.is_some_and(|task| task.process == self.main)
        };
        if tid == self.main || leaderless() {
            self.ending = Some(ending);
            interrupts::program_ended();
        }
    }
}

/// Returns `true` for the error that `/proc` gives for a process that was killed since.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The flags of the clone that a thread is in the event of. What it has made may have been `noted` there by the kernel where `clone3` was told the flags: those
/// that it had at its entry count.
pub(super) fn clone_flags(tid: Tid, noted: Option<u64>) -> u64 {
    const SHARING: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    let Ok(registers) = ptrace::registers(tid) else {
        return 0;
    };
    let at_entry = |at| noted.unwrap_or_else(|| memory::read_word(tid, at).unwrap_or(0));
    if ptrace::is_i386(tid) {
        let number = registers.orig_rax as u32;
        return match i386::NUMBERS.iter().find(|(here, _)| *here == number) {
            Some((_, libc::SYS_clone)) => registers.rbx,
            Some((_, libc::SYS_clone3)) => at_entry(registers.rbx),
            Some((_, libc::SYS_vfork)) => SHARING,
            _ => 0,
        };
    }
    match registers.orig_rax as i64 {
        libc::SYS_clone => registers.rdi,
        libc::SYS_clone3 => at_entry(registers.rdi),
        libc::SYS_vfork => SHARING,
        _ => 0,
    }
}
