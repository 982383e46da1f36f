//! The loop over what the kernel reports of traced threads.
//!
//! # Rules
//! - Every stop is answered exactly once: resumed, held for the order of calls, or left to a group stop.
//! - Calls on one address space happen one at a time, in the order in which their threads came to it.

mod attached;
mod hold;
mod tasks;
mod unread;

use std::io;

use samara_mm::Call;

use super::by_tid::ByTid;
use super::decode::{self, Bounds, Decoded, Filling};
use super::filter::{self, Filter};
use super::interrupts;
use super::memory;
use super::progress::Progress;
use super::ptrace::{self, Entry, Pace, Stop, Tid};
use super::seeding::Standing;
use super::session::Session;
use super::shortly::Shortly;
use super::space::{Space, Who};

/// What a thread's call under way will need when it returns.
#[derive(Debug)]
enum Doing {
    Perform(Call),
    Fork,
    /// A clone that shares the address space, or of a thread that is not followed: holds no order.
    Thread,
    /// The process whose limits to take anew, and the address space that it uses: holds the order of that one.
    Limits {
        target: Tid,
        index: usize,
    },
    /// Holds no order: what the caller may do is to be looked at anew.
    Settings,
    /// Holds no order: to be counted if it is refused.
    Tracing,
    /// Was passed over, and holds no order: the thread has nothing left but four calls.
    Strict,
    /// Holds no order either: a filter decides about calls that nobody else sees.
    Listener,
    /// The address of the ring will be at `pointer`.
    RingSetUp {
        pointer: u64,
        narrow: bool,
    },
    RingDestroyed(Call),
    /// Holds no order: a ring of `io_uring` will have been made.
    UringSetUp {
        params: u64,
    },
    /// Holds no order, since it may wait for other threads: advice was submitted.
    UringEnter,
    Filled(Filling),
    Moved {
        to: u64,
        from: u64,
    },
    Bounds(Bounds),
    /// Its arguments lie below an area that grows, and could not be read yet.
    Unread(Entry),
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
    /// Where the result of its call will be, if the call does not return it.
    result_at: Option<u64>,
    /// Its clone asked for a child that is not traced: what was changed of that is to be put back.
    untraced: bool,
    /// What the kernel looks at when it calls; `None` if that may have changed.
    standing: Option<Standing>,
    /// It has left itself `read`, `write`, `exit` and `rt_sigreturn`, as of `SECCOMP_SET_MODE_STRICT`.
    strict: bool,
    /// A filter may let its calls pass unseen: no address space that it uses is followed.
    unseen: bool,
}

impl Task {
    fn new(process: Tid, state: State) -> Self {
        Self {
            process,
            space: None,
            state,
            result_at: None,
            untraced: false,
            standing: None,
            strict: false,
            unseen: false,
        }
    }
}

/// How the program that was started ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(i32),
    Signal {
        number: i32,
        core: bool,
    },
    /// Not at all: it was let go, and runs on.
    LetGo,
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
    pace: Pace,
    filter: Filter,
    tasks: ByTid<Task>,
    spaces: Vec<Option<Space>>,
    session: &'s mut Session,
    started: bool,
    ending: Option<Ending>,
    /// Processes that outlived the program were asked to end.
    asked: bool,
    progress: Progress,
    hold: hold::Hold,
    /// The last that was done is to let a call run, which will stop at its return.
    returns_soon: bool,
    shortly: Shortly,
}

impl<'s> Tracer<'s> {
    /// For a program that was started under the filter.
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
            progress: Progress::new(),
            hold: hold::Hold::default(),
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
            // Where there is always a stop to report, no wait is interrupted.
            self.own_signals();
            self.progress.tick(&self.session.tally, self.tasks.len());
            if self.tasks.is_empty() {
                break;
            }
        }
        self.progress.finish();
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

    /// The program has ended, and a signal asks that others that it started end too. A process that ran before is let go.
    fn own_signals(&mut self) {
        if !interrupts::arrived() {
            return;
        }
        if self.pace == Pace::EveryCall {
            return self.let_go();
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
            Stop::Seccomp => match ptrace::entry(tid) {
                Ok(entry) => self.entry(tid, entry),
                Err(_) => self.pace.go(tid, 0),
            },
            Stop::Call if self.tasks.get(&tid).is_some_and(|task| task.strict) => {
                self.strict_call(tid);
            }
            Stop::Call if self.pace == Pace::Filtered => self.call_returned(tid),
            Stop::Call => match ptrace::entered(tid, &self.filter) {
                Ok(Some((entry, true))) => self.entry(tid, entry),
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
        Ok(())
    }

    fn resume(&mut self, tid: Tid, signal: i32) {
        match self.tasks.get(&tid) {
            Some(task) if task.strict || matches!(task.state, State::InCall(_)) => {
                ptrace::resume_to_exit(tid, signal);
            }
            _ => self.pace.go(tid, signal),
        }
    }

    /// An access of a thread was in vain: perhaps beyond the end of a file, or below an area that did not grow.
    fn found_nothing(&mut self, tid: Tid) {
        if let Some(index) = self.tasks.get(&tid).and_then(|task| task.space)
            && let Some(space) = &mut self.spaces[index]
            && let Some(address) = ptrace::accessed_in_vain(tid)
        {
            space.found_nothing(address, self.session);
        }
    }

    /// A thread in strict mode begins a call, or one returns. The kernel ends it for any but four, as it would without a tracer.
    fn strict_call(&mut self, tid: Tid) {
        const ALLOWED: [i64; 4] = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_exit,
            libc::SYS_rt_sigreturn,
        ];
        /// In the table of i386: the same, but for `sigreturn`.
        const ALLOWED_I386: [i64; 4] = [3, 4, 1, 119];
        let allowed = match ptrace::is_i386(tid) {
            true => ALLOWED_I386,
            false => ALLOWED,
        };
        if let Ok(Some((entry, _))) = ptrace::entered(tid, &self.filter)
            && !allowed.contains(&(entry.nr as i64))
        {
            // SAFETY: ends our own tracee.
            unsafe { libc::kill(tid, libc::SIGKILL) };
        }
        ptrace::resume_to_exit(tid, 0);
    }

    /// A call of interest begins.
    fn entry(&mut self, tid: Tid, entry: Entry) {
        // Stopped by a filter of the program's own. Without a tracer of its own, it would get this.
        if !filter::mark::is_own(entry.mark) {
            let _ = ptrace::pass_over(tid, -i64::from(libc::ENOSYS));
            self.resume(tid, 0);
            return;
        }
        // Followed or not: a child without a tracer would get ENOSYS wherever the filter stops it.
        if decode::clones_untraced(tid, &entry)
            && ptrace::set_untraced(tid, false).is_ok()
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.untraced = true;
        }
        let followed = self.order_of(tid, &entry);
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

    /// The address space in whose order a call comes: the caller's own, or that of the process whose limits it changes.
    fn order_of(&self, tid: Tid, entry: &Entry) -> Option<usize> {
        let own = self.tasks.get(&tid)?.space;
        match decode::limits_of(entry) {
            Some(target) if target != 0 && target != tid => self
                .user(target)
                .map(|(_, task)| task.space)
                .or(Some(own))?,
            _ => own,
        }
    }

    /// A thread of `process`, or the thread of that number.
    fn user(&self, process: Tid) -> Option<(Tid, &Task)> {
        self.tasks
            .iter()
            .find(|(tid, task)| **tid == process || task.process == process)
            .map(|(tid, task)| (*tid, task))
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
                self.pace.go(tid, 0);
            }
            None => self.pace.go(tid, 0),
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
            self.pace.go(tid, 0);
            return;
        };
        let who = Who {
            tid,
            process: task.process,
        };
        task.result_at = entry.result_at;
        let decoded = decode::decode(
            tid,
            &entry,
            &mut self.session.files,
            &mut self.session.watchers,
        );
        let doing = match decoded {
            Decoded::Ignore | Decoded::Unmodelled { changes_map: false }
                if space.may_be_read_later(&entry) =>
            {
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                space.prepare(
                    &Space::ring(None),
                    who,
                    (standing, entry.is_i386()),
                    self.session,
                );
                Doing::Unread(entry)
            }
            Decoded::Perform(call) => {
                if let Call::Mmap { offset, .. } = call {
                    space.uring_mapping(entry.args[4] as i32, offset);
                }
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                space.nodes_at = decode::nodes_at(&entry);
                space.prepare(&call, who, (standing, entry.is_i386()), self.session);
                if space.may_lose_writes(&call) && self.hold_others(tid, index) {
                    self.look_beside_held(&call, index);
                }
                return self.start(tid, index, Doing::Perform(call));
            }
            Decoded::Fork => Doing::Fork,
            Decoded::Limits(target) => {
                let target = if target == 0 { task.process } else { target };
                Doing::Limits { target, index }
            }
            Decoded::Settings => return self.aside(tid, Doing::Settings),
            Decoded::Listener => return self.aside(tid, Doing::Listener),
            Decoded::Tracing => return self.aside(tid, Doing::Tracing),
            // Without this tracer's filter the kernel accepts it, if nothing else forbids it.
            Decoded::Strict if self.pace != Pace::Filtered => return self.run_to_clone(tid),
            Decoded::Strict => {
                let _ = ptrace::pass_over(tid, 0);
                return self.aside(tid, Doing::Strict);
            }
            Decoded::Exec => {
                space.compare_changed(who, self.session, "the calls before exec");
                task.state = State::Running;
                self.pace.go(tid, 0);
                return;
            }
            Decoded::Ignore => {
                self.run_to_clone(tid);
                return;
            }
            Decoded::RingSetUp { pointer, narrow } => {
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                space.prepare(
                    &Space::ring(None),
                    who,
                    (standing, entry.is_i386()),
                    self.session,
                );
                Doing::RingSetUp { pointer, narrow }
            }
            Decoded::UringSetUp { params } => return self.aside(tid, Doing::UringSetUp { params }),
            Decoded::UringEnter(descriptor, count, flags) => {
                let submits = (descriptor, count, flags);
                if space.uring_enters(submits, who, self.session) {
                    return self.aside(tid, Doing::UringEnter);
                }
                return self.run_to_clone(tid);
            }
            Decoded::Filled(filling) => Doing::Filled(filling),
            Decoded::Moved { to, from } => Doing::Moved { to, from },
            Decoded::Bounds(bounds) => Doing::Bounds(bounds),
            Decoded::RingDestroyed { address } => {
                let Some(call) = space.take_ring(address) else {
                    self.run_to_clone(tid);
                    return;
                };
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                space.prepare(&call, who, (standing, entry.is_i386()), self.session);
                Doing::RingDestroyed(call)
            }
            Decoded::Unmodelled { changes_map } => Doing::Unmodelled {
                name: decode::name(&entry),
                changes_map,
            },
        };
        self.start(tid, index, doing);
    }

    /// Lets the call run whose turn it is.
    fn start(&mut self, tid: Tid, index: usize, doing: Doing) {
        if let Some(space) = &mut self.spaces[index] {
            space.holder = Some(tid);
        }
        self.set_state(tid, State::InCall(doing));
        ptrace::resume_to_exit(tid, 0);
        self.returns_soon = true;
    }

    /// Lets a call run that holds no order, until it returns.
    fn aside(&mut self, tid: Tid, doing: Doing) {
        self.set_state(tid, State::InCall(doing));
        ptrace::resume_to_exit(tid, 0);
    }

    /// A call returns.
    fn call_returned(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            self.pace.go(tid, 0);
            return;
        };
        let State::InCall(doing) = std::mem::replace(&mut task.state, State::Running) else {
            self.pace.go(tid, 0);
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
            self.pace.go(tid, 0);
            return;
        };
        let returned = match (ptrace::result(tid), task.result_at.take()) {
            (Ok(0), Some(at)) => memory::read_half(tid, at).map_or(0, |address| address as i64),
            (Ok(returned), _) => returned,
            // Killed at this moment: its exit event follows.
            (Err(_), _) => {
                if let Some(space) = &mut self.spaces[index] {
                    space.interrupt();
                }
                self.pace.go(tid, 0);
                self.release(index, tid);
                return;
            }
        };
        match doing {
            Doing::Thread => return self.pace.go(tid, 0),
            Doing::Settings => {
                task.standing = None;
                return self.pace.go(tid, 0);
            }
            Doing::Tracing => {
                let refused = returned == -i64::from(libc::EPERM);
                self.session.tally.tracers_refused += u64::from(refused);
                return self.pace.go(tid, 0);
            }
            Doing::Strict => {
                task.strict = true;
                return ptrace::resume_to_exit(tid, 0);
            }
            Doing::Listener => {
                if returned >= 0 {
                    self.lose_sight(tid, index);
                }
                return self.pace.go(tid, 0);
            }
            Doing::UringSetUp { params } => {
                if let (Ok(descriptor), Some(space)) =
                    (i32::try_from(returned), &mut self.spaces[index])
                    && descriptor >= 0
                {
                    space.uring_set_up(descriptor, params, who);
                }
                return self.pace.go(tid, 0);
            }
            Doing::UringEnter => {
                if let Some(space) = &mut self.spaces[index] {
                    space.uring_entered(returned, who, self.session);
                }
                return self.pace.go(tid, 0);
            }
            Doing::Limits { target, index } => {
                if returned == 0 {
                    // Of its own process, it can be asked itself: another thread may be about to end, and tell nothing.
                    let asked = if target == who.process { tid } else { target };
                    self.limits_changed(asked);
                }
                self.pace.go(tid, 0);
                return self.release(index, tid);
            }
            _ => {}
        }
        let doing = match doing {
            Doing::Unread(entry) => self.read_at_last(&entry, who, index, returned),
            read => read,
        };
        if matches!(doing, Doing::Perform(_)) {
            self.hear_others(tid, index);
        }
        let mut running = false;
        let mut kept = false;
        let mut of_another = false;
        let mut elsewhere = None;
        if let Some(space) = &mut self.spaces[index]
            && !to_be_restarted(returned)
        {
            match doing {
                Doing::Filled(filling) => {
                    let done = filling.done(tid, returned);
                    if !space.filled(&filling, done, self.session) {
                        elsewhere = done.map(|done| (filling, done));
                    }
                }
                // Even if nothing was moved there, it has an owner, and so has what was written to and moved away.
                Doing::Moved { to, from } => {
                    let name = "ioctl(UFFDIO_MOVE)";
                    space.finish_unmodelled(name, true, who, returned, self.session);
                    space.filled_in_vain(to, self.session);
                    space.filled_in_vain(from, self.session);
                }
                Doing::Bounds(bounds) if returned == 0 => {
                    space.bounds_set(bounds, who, self.session);
                }
                // Of another process, whose map it may have changed.
                Doing::Perform(call) if !space.is_own_watcher(&call, who, returned) => {
                    let name = match call {
                        Call::UffdRegister { .. } => "ioctl(UFFDIO_REGISTER) for another process",
                        _ => "ioctl(UFFDIO_UNREGISTER) for another process",
                    };
                    space.finish_unmodelled(name, false, who, returned, self.session);
                    of_another = returned == 0;
                }
                Doing::Perform(mut call) => {
                    kept = space.leaves_files(&call, returned);
                    running = space.look_at_return(&mut call, who, returned, self.session);
                    if running {
                        self.pace.go(tid, 0);
                    }
                    space.finish(call, who, returned, running, self.session);
                }
                Doing::RingDestroyed(mut call) if returned == 0 => {
                    space.look_at_return(&mut call, who, returned, self.session);
                    space.finish(call, who, returned, false, self.session);
                }
                Doing::RingSetUp { pointer, narrow } if returned == 0 => {
                    let ring = space.ring_set_up(pointer, narrow, who, self.session);
                    if let Some((mut call, address)) = ring {
                        let address = address as i64;
                        space.look_at_return(&mut call, who, address, self.session);
                        space.finish(call, who, address, false, self.session);
                    }
                }
                Doing::Unmodelled { name, changes_map } => {
                    space.finish_unmodelled(name, changes_map, who, returned, self.session);
                }
                // A fork that failed: its event would have come before. The others are done with.
                _ => {}
            }
        }
        if of_another {
            self.doubt_others(index);
        }
        if let Some((filling, done)) = elsewhere {
            self.filled_elsewhere(&filling, done, index);
        }
        if !kept {
            self.session.files.release();
        }
        if !running {
            self.pace.go(tid, 0);
        }
        self.release(index, tid);
    }

    /// A userfaultfd has filled in pages, but not of address space `index`, which has called: it is of another process, which forked this one.
    fn filled_elsewhere(&mut self, filling: &Filling, done: u64, index: usize) {
        for (other, space) in self.spaces.iter_mut().enumerate() {
            if let Some(space) = space
                && other != index
                && space.is_watched_at(filling.start)
            {
                space.take_in(filling, done, self.session);
            }
        }
    }

    /// A call on address space `index` has changed another, of which nothing says which it is.
    fn doubt_others(&mut self, index: usize) {
        for (other, space) in self.spaces.iter_mut().enumerate() {
            if let Some(space) = space
                && other != index
            {
                space.look_soon("after what another process did with a userfaultfd");
            }
        }
    }

    /// From now on, calls of a thread may pass unseen.
    fn lose_sight(&mut self, tid: Tid, index: usize) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.unseen = true;
        }
        if let Some(space) = &mut self.spaces[index] {
            space.give_up(&io::Error::other(UNSEEN), self.session);
        }
    }

    /// Ends the turn of a thread, and starts the next that waits.
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

    fn limits_changed(&mut self, target: Tid) {
        let task = self.tasks.get(&target).map(|task| (target, task));
        let found = task
            .or_else(|| self.user(target))
            .and_then(|(tid, task)| Some((tid, task.process, task.space?)));
        if let Some((tid, process, index)) = found
            && let Some(space) = &mut self.spaces[index]
        {
            space.limits_changed(Who { tid, process }, self.session);
        }
    }
}

/// Why a process is not followed.
const UNSEEN: &str =
    "a filter with a listener decides about its calls, and may let them pass unseen";

/// The kernel will make the thread call again (ERESTARTSYS and its kin): this time counts for nothing.
fn to_be_restarted(returned: i64) -> bool {
    matches!(returned, -516..=-512)
}
