//! The start and the end of threads and processes, and the address space that each uses.
//!
//! # Rules
//! - A new thread may report its first stop before the event of the thread that made it. It is held
//!   until that event comes.
//! - At exec all other threads of the process end without a report. The caller of exec gets the
//!   process's number, whatever its number was before.
//! - A thread can be killed in any state. Its exit event is the last moment at which its address
//!   space can be read.

use std::io;

use samara_linux::Tid;
use samara_linux::memory;
use samara_linux::ptrace;

use crate::record::Reason;
use crate::trace::exec::Contents;
use crate::trace::i386;
use crate::trace::seeding::{Asked, Standing};
use crate::trace::space::{BEFORE_EXIT, Space, Who};
use crate::trace::{interrupts, launch};

use super::listeners::UNSEEN;
use super::task::{Doing, State, Task, Told};
use super::{Ending, Failure, Tracer};

/// A thread that has made another, with the state that the child inherits.
struct Maker {
    who: Who,
    /// The index of its address space.
    space: Option<usize>,
    /// Its call copies its address space, and holds that space's order.
    forking: bool,
    /// Its clone asked for a child that is not traced.
    untraced: bool,
    standing: Option<Standing>,
    /// A filter may hide its calls.
    unseen: bool,
}

impl Tracer<'_> {
    /// Handles the event of a thread that has made another.
    pub(super) fn new_thread(&mut self, tid: Tid) {
        let Ok(child) = ptrace::event_message(tid) else {
            self.pace.go(tid, 0);
            return;
        };
        let child = child as Tid;
        let noted = self.tasks.get(&tid).and_then(|task| task.clone_flags);
        let flags = clone_flags(tid, noted);
        let maker = self.take_maker(tid, flags);
        if maker.untraced {
            let _ = ptrace::set_untraced(tid, true);
        }
        // A thread that had to be taken over without its parent's event keeps its state.
        let adopted = self
            .tasks
            .get(&child)
            .is_some_and(|task| !matches!(task.state, State::Unannounced));
        if !adopted {
            self.add_child(child, flags, &maker);
        }
        self.pace.go(tid, 0);
        if maker.forking
            && let Some(index) = maker.space
        {
            self.release(index, tid);
        }
    }

    /// Ends the call of a thread that has made another, and returns the state that the child
    /// inherits.
    fn take_maker(&mut self, tid: Tid, flags: u64) -> Maker {
        let Some(task) = self.tasks.get_mut(&tid) else {
            return Maker {
                who: Who { tid, process: tid },
                space: None,
                forking: false,
                untraced: false,
                standing: None,
                unseen: false,
            };
        };
        let forking = matches!(task.state, State::InCall(Doing::Fork));
        if forking || matches!(task.state, State::InCall(Doing::Thread)) {
            task.state = State::Running;
        }
        let new_namespace = flags & libc::CLONE_NEWUSER as u64 != 0;
        Maker {
            who: Who {
                tid,
                process: task.process,
            },
            space: task.space,
            forking,
            untraced: std::mem::take(&mut task.untraced),
            standing: task.standing.filter(|_| !new_namespace),
            unseen: task.unseen,
        }
    }

    /// Adds a child that was made with these flags. Resumes it if it has stopped before.
    fn add_child(&mut self, child: Tid, flags: u64, maker: &Maker) {
        let is_thread = flags & libc::CLONE_THREAD as u64 != 0;
        let shares = flags & libc::CLONE_VM as u64 != 0;
        let process = if is_thread { maker.who.process } else { child };
        let space = match maker.space {
            Some(index) if shares => Some(index),
            Some(index) => self.forked(index, maker.who, child),
            None => None,
        };
        if let Some(index) = space
            && let Some(space) = &mut self.spaces[index]
        {
            space.users += 1;
        }
        match is_thread {
            true => self.session.tally.threads += 1,
            false => self.session.tally.processes += 1,
        }
        let known = self.tasks.contains_key(&child);
        let state = match known {
            true => State::Running,
            false => State::Expected,
        };
        let task = Task {
            space,
            untraced: maker.untraced && !known,
            standing: maker.standing,
            unseen: maker.unseen,
            ..Task::new(process, state)
        };
        self.tasks.insert(child, task);
        if known {
            if maker.untraced {
                let _ = ptrace::set_untraced(child, true);
            }
            self.pace.go(child, 0);
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

    /// Handles a process that has replaced its program.
    pub(super) fn exec(&mut self, tid: Tid) -> Result<(), Failure> {
        self.session.tally.execs += 1;
        let former = ptrace::event_message(tid).map_or(tid, |former| former as Tid);
        let caller = self.tasks.get(&former);
        let unseen = caller.is_some_and(|task| task.unseen);
        let space = caller.and_then(|task| self.spaces[task.space?].as_deref());
        // Older kernels do not report it.
        let merges_any =
            self.session.machine.keeps_memory_merge() && space.is_some_and(Space::merges_any);
        let mdwe = space.map_or_else(|| self.session.machine.mdwe(), Space::mdwe_at_exec);
        self.leave_for_exec(tid, former);
        let task = Task {
            unseen,
            ..Task::new(tid, State::Running)
        };
        self.tasks.insert(tid, task);

        let program = Contents::of_program(tid);
        let head = program.as_ref().and_then(|it| it.head().get(..20));
        let refused = head.and_then(|head| launch::refuse_other_machines(head).err());
        if let Some(what) = refused {
            if !self.started {
                // SAFETY: the call ends our own child, which has run no instruction yet.
                unsafe { libc::kill(tid, libc::SIGKILL) };
                return Err(Failure::OtherMachine(what));
            }
            samara_conformance::tally::count(&mut self.session.tally.not_followed, what);
        } else {
            let mut asked = Asked::running(tid, program);
            // The kernel's own value counts: another process that shared the memory may have
            // changed it since exec looked.
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

    /// Ends all threads of a process at an exec, which thread `former` has called.
    fn leave_for_exec(&mut self, process: Tid, former: Tid) {
        let others: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(other, task)| task.process == process && **other != process)
            .map(|(other, _)| *other)
            .collect();
        if former != process {
            self.leave(process, false);
        }
        for other in others {
            self.leave(other, false);
            self.tasks.remove(&other);
        }
        self.leave(process, false);
    }

    /// Reads the address space of a process from the kernel.
    pub(super) fn start_space(&mut self, tid: Tid, asked: &Asked, reason: Reason) {
        match Space::begin(tid, asked, reason, self.session) {
            Ok(mut space) => {
                space.users = 1;
                space.main = tid == self.main;
                self.spaces.push(Some(Box::new(space)));
                let index = self.spaces.len() - 1;
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.space = Some(index);
                    // A thread that ran before may be within a call that changes it.
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

    /// Handles a thread's first stop, or the end of a group stop.
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

    /// Handles a thread that leaves its address space: it is about to exit, is gone, or has called
    /// exec. `stopped` means that the map can still be read.
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
        // It was killed within the call, which may have taken effect nevertheless.
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
            self.end_space(index, stopped.then_some(who));
        } else if in_call {
            self.release(index, tid);
        }
    }

    /// Ends an address space that its last thread has left. Compares the maps if that thread,
    /// `stopped`, can still show them.
    fn end_space(&mut self, index: usize, stopped: Option<Who>) {
        let Some(space) = &mut self.spaces[index] else {
            return;
        };
        if let Some(who) = stopped {
            let holder = space.holder.and_then(|holder| self.tasks.get(&holder));
            match holder.map(|task| &task.state) {
                Some(State::InCall(Doing::Elsewhere { told, .. })) => match told {
                    Told::Perform(call) => space.compare_beside(call, who, self.session),
                    // Nothing shows if the kernel has performed the call.
                    Told::Unmodelled(_) => {}
                },
                _ => space.compare_changed(who, self.session, BEFORE_EXIT),
            }
        }
        space.end(self.session);
        // These are calls of other processes, which have nothing to wait for here any more.
        let waiting = std::mem::take(&mut space.waiting);
        self.spaces[index] = None;
        self.session.files.release();
        for (tid, entry) in waiting {
            self.entry(tid, entry);
        }
    }

    /// Removes a thread from the orders of other address spaces. The caller handles its turn in
    /// `own`.
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
        // The address space for which it called may be gone.
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
        // If the first thread had ended before the process was attached to, nothing reports the end
        // of the process. Its last thread stands for it.
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

/// Returns `true` for the errors of `/proc` about a process that has been killed.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Returns the flags of the clone whose event a thread is in. For `clone3`, `noted` has the flags
/// from the entry of the call: the kernel may have stored the child's number over them since.
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
