//! The loop over what the kernel reports of traced threads.
//!
//! # Rules
//! - Every stop is answered exactly once: resumed, held for the order of calls, or left to a group stop.
//! - A new thread may report its first stop before the event of the thread that made it: it is held until that comes.
//! - At exec all other threads of the process are gone, and the one that called has the process's number from then on, whatever
//!   it had before. Nothing else tells of their end.
//! - A thread can be killed in any state. Its exit event is the last moment at which its address space can be looked at.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use samara_mm::Call;

use crate::record::Reason;

use super::decode::{self, Decoded};
use super::launch;
use super::proc;
use super::progress::Progress;
use super::ptrace::{self, Entry, Stop, Tid};
use super::session::Session;
use super::space::{Space, Who};

/// What a thread's call under way will need when it returns.
#[derive(Debug)]
enum Doing {
    Perform(Call),
    Fork,
    /// A clone that shares the address space, or of a thread that is not followed: holds no order.
    Thread,
    /// Holds no order: the process whose limits to take anew.
    Limits(Tid),
    /// Holds no order either: the caller's settings are to be taken anew.
    Settings,
    Unmodelled {
        name: &'static str,
        changes_map: bool,
    },
}

#[derive(Debug)]
enum State {
    Running,
    /// Stopped at the entry of a call, until others' are done.
    Held,
    InCall(Doing),
    /// Has reported itself, but not yet the thread that made it.
    Unannounced,
    /// Announced, but has not reported itself yet.
    Expected,
}

#[derive(Debug)]
struct Task {
    process: Tid,
    /// Index into the spaces; `None` if it is not followed, or has left its address space.
    space: Option<usize>,
    state: State,
    /// Its clone asked for a child that is not traced: what was changed of that is to be put back.
    untraced: bool,
}

/// How the program that was started ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(i32),
    Signal { number: i32, core: bool },
}

/// Why tracing stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program never got to its first instruction; nothing was traced.
    NotStarted,
    /// The program is for another machine.
    OtherMachine(&'static str),
    Kernel(io::Error),
}

pub(crate) struct Tracer<'s> {
    main: Tid,
    tasks: HashMap<Tid, Task>,
    spaces: Vec<Option<Space>>,
    session: &'s mut Session,
    started: bool,
    ending: Option<Ending>,
    /// Processes that outlived the program were asked to end.
    asked: bool,
    progress: Progress,
}

/// Signals that arrived for the tracer after the program had ended, bit by bit.
static PENDING: AtomicU32 = AtomicU32::new(0);
/// The program, as long as it runs; then 0.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Passes a signal on at once: between a look at a flag and the next wait, one could get lost.
extern "C" fn on_signal(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid description of the signal.
    let from_terminal = unsafe { (*information).si_code } == libc::SI_KERNEL;
    match PROGRAM.load(Ordering::Relaxed) {
        0 => {
            PENDING.fetch_or(1 << signal, Ordering::Relaxed);
        }
        // The program is in the same process group and has it already.
        _ if from_terminal => {}
        program => {
            // SAFETY: `kill` is async-signal-safe; the program is our own child, not yet reaped.
            unsafe { libc::kill(program, signal) };
        }
    }
}

/// What the terminal sends goes to the program, which shares the process group; what else is sent to the tracer is passed on to
/// `program`. Once that has ended, either asks the processes that outlive it to end, and the second ends them.
pub(crate) fn take_signals(program: Tid) {
    PROGRAM.store(program, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zeros is a valid `sigaction`: an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler uses atomics and `kill` only.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

impl<'s> Tracer<'s> {
    pub(crate) fn new(main: Tid, session: &'s mut Session) -> Self {
        let mut tasks = HashMap::new();
        tasks.insert(
            main,
            Task {
                process: main,
                space: None,
                state: State::Running,
                untraced: false,
            },
        );
        session.tally.processes = 1;
        Self {
            main,
            tasks,
            spaces: Vec::new(),
            session,
            started: false,
            ending: None,
            asked: false,
            progress: Progress::new(),
        }
    }

    /// Runs until the last traced process has ended.
    pub(crate) fn run(mut self) -> Result<Ending, Failure> {
        loop {
            match ptrace::wait(-1, false) {
                Ok(Some((tid, stop))) => self.stop(tid, stop)?,
                Ok(None) => self.own_signals(),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(error) => return Err(Failure::Kernel(error)),
            }
            self.progress.tick(&self.session.tally, self.tasks.len());
            if self.tasks.is_empty() {
                break;
            }
        }
        self.progress.finish();
        for space in self.spaces.iter_mut().filter_map(Option::take) {
            let mut space = space;
            self.session.tally.ended_unseen += 1;
            space.end(self.session);
        }
        if !self.started {
            return Err(Failure::NotStarted);
        }
        self.ending.ok_or(Failure::NotStarted)
    }

    /// The program has ended, and a signal asks that others that it started end too.
    fn own_signals(&mut self) {
        if PENDING.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        // Who ignored the first request gets one that cannot be ignored.
        let signal = if std::mem::replace(&mut self.asked, true) {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        let mut processes: Vec<Tid> = self.tasks.values().map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            // SAFETY: sends a signal to our own tracees.
            unsafe { libc::kill(process, signal) };
        }
    }

    fn stop(&mut self, tid: Tid, stop: Stop) -> Result<(), Failure> {
        match stop {
            Stop::Seccomp => self.entry(tid),
            Stop::SyscallExit => self.call_returned(tid),
            Stop::Fork | Stop::Vfork | Stop::Clone => self.new_thread(tid),
            Stop::Exec => self.exec(tid)?,
            Stop::Exiting => {
                self.leave(tid, true);
                ptrace::resume(tid, 0);
            }
            Stop::Attached => self.attached(tid),
            Stop::Group(_) => ptrace::listen(tid),
            Stop::Signal(signal) => self.resume(tid, signal),
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
        Ok(())
    }

    fn resume(&mut self, tid: Tid, signal: i32) {
        match self.tasks.get(&tid).map(|task| &task.state) {
            Some(State::InCall(_)) => ptrace::resume_to_exit(tid, signal),
            _ => ptrace::resume(tid, signal),
        }
    }

    /// A call of interest begins.
    fn entry(&mut self, tid: Tid) {
        let Ok(entry) = ptrace::entry(tid) else {
            ptrace::resume(tid, 0);
            return;
        };
        // Followed or not: a child without a tracer would get ENOSYS wherever the filter stops it.
        if decode::clones_untraced(tid, &entry)
            && ptrace::set_untraced(tid, false).is_ok()
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.untraced = true;
        }
        let followed = self.tasks.get(&tid).and_then(|task| task.space);
        let space = followed.and_then(|index| Some((index, self.spaces[index].as_mut()?)));
        let Some((index, space)) = space else {
            self.run_to_clone(tid);
            return;
        };
        if space.holder.is_some() {
            space.waiting.push_back((tid, entry));
            self.set_state(tid, State::Held);
        } else {
            self.begin(tid, entry, index);
        }
    }

    /// Lets a call run on that holds no order; one whose arguments were changed stops again.
    fn run_to_clone(&mut self, tid: Tid) {
        match self.tasks.get_mut(&tid) {
            Some(task) if task.untraced => {
                task.state = State::InCall(Doing::Thread);
                ptrace::resume_to_exit(tid, 0);
            }
            Some(task) => {
                task.state = State::Running;
                ptrace::resume(tid, 0);
            }
            None => ptrace::resume(tid, 0),
        }
    }

    fn set_state(&mut self, tid: Tid, state: State) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.state = state;
        }
    }

    /// Starts the call of a thread, whose turn it is.
    fn begin(&mut self, tid: Tid, entry: Entry, index: usize) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            return;
        };
        let Some(space) = &mut self.spaces[index] else {
            ptrace::resume(tid, 0);
            return;
        };
        let who = Who {
            tid,
            process: task.process,
        };
        let doing = match decode::decode(tid, &entry, &mut self.session.files) {
            Decoded::Perform(call) => {
                space.prepare(&call, who, self.session);
                Doing::Perform(call)
            }
            Decoded::Fork => Doing::Fork,
            Decoded::Limits(target) => {
                let target = if target == 0 { task.process } else { target };
                task.state = State::InCall(Doing::Limits(target));
                ptrace::resume_to_exit(tid, 0);
                return;
            }
            Decoded::Settings => {
                task.state = State::InCall(Doing::Settings);
                ptrace::resume_to_exit(tid, 0);
                return;
            }
            Decoded::Exec => {
                space.compare_changed(who, self.session, "the calls before exec");
                task.state = State::Running;
                ptrace::resume(tid, 0);
                return;
            }
            Decoded::Ignore => {
                self.run_to_clone(tid);
                return;
            }
            Decoded::Unmodelled { changes_map } => Doing::Unmodelled {
                name: decode::name(&entry),
                changes_map,
            },
        };
        space.holder = Some(tid);
        task.state = State::InCall(doing);
        ptrace::resume_to_exit(tid, 0);
    }

    /// A call returns.
    fn call_returned(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            ptrace::resume(tid, 0);
            return;
        };
        let State::InCall(doing) = std::mem::replace(&mut task.state, State::Running) else {
            ptrace::resume(tid, 0);
            return;
        };
        if std::mem::take(&mut task.untraced) {
            let _ = ptrace::set_untraced(tid, true);
        }
        let who = Who {
            tid,
            process: task.process,
        };
        let Some(index) = task.space else {
            ptrace::resume(tid, 0);
            return;
        };
        let returned = match ptrace::result(tid) {
            Ok(returned) => returned,
            // Killed at this moment: its exit event follows.
            Err(_) => {
                if let Some(space) = &mut self.spaces[index] {
                    space.interrupt();
                }
                ptrace::resume(tid, 0);
                self.release(index, tid);
                return;
            }
        };
        if let Doing::Thread = doing {
            ptrace::resume(tid, 0);
            return;
        }
        if let Doing::Limits(target) = doing {
            if returned == 0 {
                self.limits_changed(target);
            }
            ptrace::resume(tid, 0);
            return;
        }
        if let Doing::Settings = doing {
            if let Some(space) = &mut self.spaces[index] {
                space.settings_changed(who, self.session);
            }
            ptrace::resume(tid, 0);
            return;
        }
        let mut running = false;
        if let Some(space) = &mut self.spaces[index]
            && !to_be_restarted(returned)
        {
            match doing {
                Doing::Perform(mut call) => {
                    running = space.look_at_return(&mut call, returned, self.session);
                    if running {
                        ptrace::resume(tid, 0);
                    }
                    space.finish(call, who, returned, running, self.session);
                }
                Doing::Unmodelled { name, changes_map } => {
                    space.finish_unmodelled(name, changes_map, who, returned, self.session);
                }
                // A fork that failed: its event would have come before.
                Doing::Fork | Doing::Thread | Doing::Limits(_) | Doing::Settings => {}
            }
        }
        if !running {
            ptrace::resume(tid, 0);
        }
        self.release(index, tid);
    }

    /// Ends the turn of a thread, and starts the next that waits.
    fn release(&mut self, index: usize, tid: Tid) {
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

    fn limits_changed(&mut self, target: Tid) {
        let found = self
            .tasks
            .iter()
            .find(|(tid, task)| **tid == target || task.process == target)
            .and_then(|(tid, task)| Some((*tid, task.process, task.space?)));
        if let Some((tid, process, index)) = found
            && let Some(space) = &mut self.spaces[index]
        {
            space.limits_changed(Who { tid, process }, self.session);
        }
    }

    /// A thread has made another.
    fn new_thread(&mut self, tid: Tid) {
        let Ok(child) = ptrace::event_message(tid) else {
            ptrace::resume(tid, 0);
            return;
        };
        let child = child as Tid;
        let flags = clone_flags(tid);
        let parent = self.tasks.get_mut(&tid).map(|task| {
            let forking = matches!(task.state, State::InCall(Doing::Fork));
            if forking || matches!(task.state, State::InCall(Doing::Thread)) {
                task.state = State::Running;
            }
            let untraced = std::mem::take(&mut task.untraced);
            (task.process, task.space, forking, untraced)
        });
        let (process, space, forking, untraced) = parent.unwrap_or((tid, None, false, false));
        if untraced {
            let _ = ptrace::set_untraced(tid, true);
        }
        let is_thread = flags & libc::CLONE_THREAD as u64 != 0;
        let shares = flags & libc::CLONE_VM as u64 != 0;
        let process = if is_thread { process } else { child };
        // One that had to be taken over without its parent's event is left as it is.
        let adopted = self
            .tasks
            .get(&child)
            .is_some_and(|task| !matches!(task.state, State::Unannounced));
        if !adopted {
            let space = match space {
                Some(index) if shares => Some(index),
                Some(index) => self.forked(index, tid, child),
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
                    process,
                    space,
                    state: if known {
                        State::Running
                    } else {
                        State::Expected
                    },
                    untraced: untraced && !known,
                },
            );
            if known {
                if untraced {
                    let _ = ptrace::set_untraced(child, true);
                }
                ptrace::resume(child, 0);
            }
        }
        ptrace::resume(tid, 0);
        if forking && let Some(index) = space {
            self.release(index, tid);
        }
    }

    fn forked(&mut self, index: usize, parent: Tid, child: Tid) -> Option<usize> {
        self.session.tally.forks += 1;
        let space = self.spaces[index].as_mut()?;
        self.session
            .print_event(parent, &format!("fork() = {child}"));
        match space.fork(parent, child, self.session) {
            Ok(space) => {
                self.spaces.push(Some(space));
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
    fn exec(&mut self, tid: Tid) -> Result<(), Failure> {
        self.session.tally.execs += 1;
        let former = ptrace::event_message(tid).map_or(tid, |former| former as Tid);
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
        let task = self.tasks.entry(tid).or_insert(Task {
            process: tid,
            space: None,
            state: State::Running,
            untraced: false,
        });
        task.state = State::Running;
        task.process = tid;
        task.space = None;

        let mut head = [0; 20];
        let refused =
            read_head(tid, &mut head).and_then(|()| launch::refuse_other_machines(&head).err());
        if let Some(what) = refused {
            if !self.started {
                // SAFETY: ends our own child, of which nothing has run yet.
                unsafe { libc::kill(tid, libc::SIGKILL) };
                return Err(Failure::OtherMachine(what));
            }
            crate::tally::count(&mut self.session.tally.not_followed, what);
        } else {
            self.start_space(tid, Reason::Exec);
        }
        self.started = true;
        self.session.print_event(tid, "exec");
        ptrace::resume(tid, 0);
        Ok(())
    }

    /// Gives a process an address space read from the kernel.
    fn start_space(&mut self, tid: Tid, reason: Reason) {
        match Space::begin(tid, reason, self.session) {
            Ok(mut space) => {
                space.users = 1;
                space.main = tid == self.main;
                self.spaces.push(Some(space));
                let index = self.spaces.len() - 1;
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.space = Some(index);
                }
            }
            Err(error) if is_gone(&error) => self.session.tally.ended_unseen += 1,
            Err(error) => self.not_followed(&error),
        }
    }

    fn not_followed(&mut self, error: &io::Error) {
        let why = format!("process whose map could not be read: {error}");
        crate::tally::count(&mut self.session.tally.not_followed, &why);
    }

    /// A thread's first stop, or the end of a group stop.
    fn attached(&mut self, tid: Tid) {
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
            None => {
                self.tasks.insert(
                    tid,
                    Task {
                        process: tid,
                        space: None,
                        state: State::Unannounced,
                        untraced: false,
                    },
                );
                self.adopt_orphans();
            }
        }
    }

    /// Takes over threads whose maker was killed before it could announce them.
    fn adopt_orphans(&mut self) {
        let held: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(_, task)| matches!(task.state, State::Unannounced))
            .map(|(tid, _)| *tid)
            .collect();
        for tid in held {
            let Ok((process, parent)) = proc::family(tid) else {
                continue;
            };
            let announced = |task: &Task, process: Tid| {
                task.process == process && !matches!(task.state, State::Unannounced)
            };
            // One that is about to exit has left the address space already.
            let mate = self
                .tasks
                .values()
                .filter(|task| announced(task, process))
                .find_map(|task| task.space);
            if process != tid {
                // A thread: its process is enough to know.
                let Some(index) = mate else { continue };
                if let Some(space) = &mut self.spaces[index] {
                    space.users += 1;
                }
                self.session.tally.threads += 1;
                if let Some(task) = self.tasks.get_mut(&tid) {
                    *task = Task {
                        process,
                        space: mate,
                        state: State::Running,
                        untraced: false,
                    };
                }
                ptrace::resume(tid, 0);
            } else if !self.tasks.values().any(|task| announced(task, parent)) {
                self.session.tally.processes += 1;
                self.set_state(tid, State::Running);
                self.start_space(tid, Reason::Adopted);
                ptrace::resume(tid, 0);
            }
        }
    }

    /// A thread leaves its address space: it is about to exit (`stopped`: the map can still be read), is gone, or has exec'ed.
    fn leave(&mut self, tid: Tid, stopped: bool) {
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
        let Some(space) = &mut self.spaces[index] else {
            return;
        };
        space.users -= 1;
        if matches!(state, State::Held) {
            space.waiting.retain(|(waiting, _)| *waiting != tid);
        }
        let in_call = space.holder == Some(tid);
        if in_call {
            space.interrupt();
        }
        if space.users == 0 {
            if stopped {
                space.compare_changed(who, self.session, "the calls before exit");
            }
            space.end(self.session);
            self.spaces[index] = None;
        } else if in_call {
            self.release(index, tid);
        }
    }

    fn ended(&mut self, tid: Tid, ending: Ending) {
        if self
            .tasks
            .get(&tid)
            .is_some_and(|task| task.space.is_some())
        {
            self.session.tally.ended_unseen += 1;
        }
        self.leave(tid, false);
        if self
            .tasks
            .remove(&tid)
            .is_some_and(|task| task.process == tid)
        {
            self.adopt_orphans();
        }
        if tid == self.main {
            self.ending = Some(ending);
            PROGRAM.store(0, Ordering::Relaxed);
        }
    }
}

/// What `/proc` says of a process that was killed meanwhile.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The kernel will make the thread call again (ERESTARTSYS and its kin): this time counts for nothing.
fn to_be_restarted(returned: i64) -> bool {
    matches!(returned, -516..=-512)
}

/// The flags of the clone that a thread is in the event of.
fn clone_flags(tid: Tid) -> u64 {
    const SHARING: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    let Ok(registers) = ptrace::registers(tid) else {
        return 0;
    };
    match registers.orig_rax as i64 {
        libc::SYS_clone => registers.rdi,
        libc::SYS_clone3 => ptrace::read_word(tid, registers.rdi).unwrap_or(0),
        libc::SYS_vfork => SHARING,
        _ => 0,
    }
}

/// The first bytes of the program that a process runs.
fn read_head(tid: Tid, head: &mut [u8; 20]) -> Option<()> {
    use std::io::Read;
    std::fs::File::open(format!("/proc/{tid}/exe"))
        .ok()?
        .read_exact(head)
        .ok()
}
