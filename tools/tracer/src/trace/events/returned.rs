//! The return of a call. The engine takes in its result, and the next call that waits for the
//! address space begins.

use samara_linux::Tid;
use samara_linux::memory;
use samara_linux::ptrace;
use samara_mm::Call;

use super::Tracer;
use super::task::{Doing, State};
use crate::trace::decode::Filling;
use crate::trace::session::Session;
use crate::trace::space::{Space, Who};

/// The effects of a call beyond its own address space, and the work that is left at its return.
#[derive(Debug, Default)]
struct Outcome {
    /// The thread runs on already.
    running: bool,
    /// All files that were mapped are mapped still.
    keeps_files: bool,
    /// A request to a userfaultfd of another process.
    of_another: Option<Call>,
    /// A filling of another address space, and the number of bytes.
    filled: Option<(Filling, u64)>,
    /// Addresses that a userfaultfd may have filled without effect.
    in_vain: Vec<u64>,
    /// The call may have changed another address space, which cannot be determined.
    doubts_others: bool,
}

impl Tracer<'_> {
    /// Handles the return of a call.
    pub(super) fn call_returned(&mut self, tid: Tid) {
        let Some((doing, who, index, returned)) = self.take_returned(tid) else {
            return;
        };
        let Some(doing) = self.returned_aside(doing, who, index, returned) else {
            return;
        };
        let doing = self.read_again(doing, who, index, returned);
        if matches!(doing, Doing::Perform(_)) {
            self.hear_others(tid, index);
        }
        let outcome = self.take_in(doing, who, index, returned);
        if let Some(call) = outcome.of_another {
            self.watched_elsewhere(call, who, index, returned);
        }
        if outcome.doubts_others {
            self.doubt_others(index);
        }
        if let Some((filling, done)) = outcome.filled {
            self.filled_elsewhere(&filling, done, index);
        }
        self.perhaps_filled_in_vain_elsewhere(&outcome.in_vain, index);
        if !outcome.keeps_files {
            self.session.files.release();
        }
        if !outcome.running {
            self.pace.go(tid, 0);
        }
        self.release(index, tid);
    }

    /// Takes the call from which a thread returns, with its address space and its result. Resumes
    /// the thread and returns `None` if there is nothing to take.
    fn take_returned(&mut self, tid: Tid) -> Option<(Doing, Who, usize, i64)> {
        let Some(task) = self.tasks.get_mut(&tid) else {
            self.pace.go(tid, 0);
            return None;
        };
        let State::InCall(doing) = std::mem::replace(&mut task.state, State::Running) else {
            self.pace.go(tid, 0);
            return None;
        };
        let who = Who {
            tid,
            process: task.process,
        };
        let returned = match (ptrace::result(tid), task.result_at) {
            (Ok(0), Some(at)) => memory::read_half(tid, at).map_or(0, |address| address as i64),
            (Ok(returned), _) => returned,
            // The thread was killed at this moment: its exit event follows, and finds it in its
            // call. Or the call has not returned yet.
            (Err(_), _) => {
                task.state = State::InCall(doing);
                ptrace::resume_to_exit(tid, 0);
                return None;
            }
        };
        task.result_at = None;
        if std::mem::take(&mut task.untraced) {
            let _ = ptrace::set_untraced(tid, true);
        }
        let Some(index) = task.space else {
            self.pace.go(tid, 0);
            return None;
        };
        Some((doing, who, index, returned))
    }

    /// Decodes a call again that could not be read at its entry, or whose userfaultfd may have
    /// changed since.
    fn read_again(&mut self, doing: Doing, who: Who, index: usize, returned: i64) -> Doing {
        match doing {
            Doing::Unread(entry) => self.read_at_last(&entry, who, index, returned),
            Doing::Unmade(entry) if returned == 0 => {
                self.read_at_last(&entry, who, index, returned)
            }
            Doing::Watch { call, entry } => self
                .as_made(call, &entry, who, index, returned)
                .map_or(Doing::Thread, Doing::Perform),
            read => read,
        }
    }

    /// Takes the result of a call into its own address space.
    fn take_in(&mut self, doing: Doing, who: Who, index: usize, returned: i64) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(space) = &mut self.spaces[index] else {
            return outcome;
        };
        let session = &mut *self.session;
        if to_be_restarted(returned) {
            if let Doing::Perform(call) = &doing {
                space.broken_off(call, who, session);
            }
            return outcome;
        }
        match doing {
            Doing::Filled(filling) => {
                let done = filling.done(who.tid, returned);
                if !space.filled(&filling, done, session) {
                    outcome.filled = done.map(|done| (filling, done));
                    outcome.in_vain.push(filling.start);
                }
            }
            // Even if nothing was moved, the target has an `anon_vma` now, and so has the source if
            // it was written to and moved away.
            Doing::Moved { to, from } => {
                space.finish_unmodelled("ioctl(UFFDIO_MOVE)", true, who, returned, session);
                space.filled_in_vain(to, session);
                space.filled_in_vain(from, session);
                outcome.in_vain.extend([to, from]);
            }
            Doing::Bounds(bounds) if returned == 0 => space.bounds_set(bounds, who, session),
            Doing::Perform(call) if has_lost_its_descriptor(&call, returned) => {}
            Doing::Perform(call) if !space.is_own_watcher(&call, who, returned, session) => {
                outcome.of_another = Some(call);
            }
            Doing::Perform(mut call) => {
                outcome.keeps_files = space.leaves_files(&call, returned);
                outcome.running = space.look_at_return(&mut call, who, returned, session);
                if outcome.running {
                    self.pace.go(who.tid, 0);
                }
                space.finish(call, who, returned, outcome.running, session);
            }
            Doing::RingDestroyed(mut call) if returned == 0 => {
                space.look_at_return(&mut call, who, returned, session);
                space.finish(call, who, returned, false, session);
            }
            Doing::RingSetUp { pointer, narrow } if returned == 0 => {
                let ring = space.ring_set_up(pointer, narrow, who, session);
                if let Some((mut call, address)) = ring {
                    let address = address as i64;
                    space.look_at_return(&mut call, who, address, session);
                    space.finish(call, who, address, false, session);
                }
            }
            Doing::Unmodelled { name, changes_map } => {
                space.finish_unmodelled(name, changes_map, who, returned, session);
                // The userfaultfd may belong to a parent, and may have been made before tracing
                // began.
                outcome.doubts_others = name.contains("UFFDIO") && space.is_forked();
            }
            // These failed.
            Doing::Bounds(_)
            | Doing::RingDestroyed(_)
            | Doing::RingSetUp { .. }
            | Doing::Unmade(_) => {}
            // A fork that succeeds has an event before.
            Doing::Fork => {}
            // These were handled before, or have turned out to change no map.
            Doing::Watch { .. }
            | Doing::Unread(_)
            | Doing::Thread
            | Doing::Limits { .. }
            | Doing::Elsewhere { .. }
            | Doing::WatcherMade
            | Doing::Settings
            | Doing::Tracing
            | Doing::Strict
            | Doing::Listener
            | Doing::UringSetUp { .. }
            | Doing::UringRegister(_)
            | Doing::UringEnter => {}
        }
        outcome
    }

    /// Handles the return of a call that holds no order, or that of another address space. Returns
    /// every other call.
    fn returned_aside(
        &mut self,
        doing: Doing,
        who: Who,
        index: usize,
        returned: i64,
    ) -> Option<Doing> {
        let tid = who.tid;
        match doing {
            Doing::Thread => {}
            Doing::Settings => {
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.standing = None;
                }
            }
            Doing::Tracing => {
                let refused = returned == -i64::from(libc::EPERM);
                self.session.tally.tracers_refused += u64::from(refused);
            }
            Doing::Strict => {
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.strict = true;
                }
                ptrace::resume_to_exit(tid, 0);
                return None;
            }
            Doing::Listener => {
                if returned >= 0 {
                    self.lose_sight(tid, index);
                }
            }
            Doing::UringSetUp { .. } | Doing::UringRegister(_) | Doing::UringEnter => {
                if let Some(space) = &mut self.spaces[index] {
                    uring_returned(space, &doing, who, returned, self.session);
                }
            }
            Doing::Limits { target, index } => {
                if returned == 0 {
                    // Its own process can be asked through the thread itself. Another thread may be
                    // about to end, and show nothing.
                    let asked = if target == who.process { tid } else { target };
                    self.limits_changed(asked);
                }
                self.pace.go(tid, 0);
                self.release(index, tid);
                return None;
            }
            Doing::WatcherMade => {
                if let (Ok(descriptor @ 0..), Some(space)) =
                    (i32::try_from(returned), &self.spaces[index])
                {
                    self.session.watchers.made(tid, descriptor, space.number);
                }
            }
            Doing::Elsewhere { told, index } => {
                self.returned_elsewhere(told, index, returned);
                self.pace.go(tid, 0);
                self.release(index, tid);
                return None;
            }
            ordered => return Some(ordered),
        }
        self.pace.go(tid, 0);
        None
    }

    /// Reads the limits of a thread's process again.
    pub(super) fn limits_changed(&mut self, target: Tid) {
        let found = self
            .user(target)
            .and_then(|(tid, task)| Some((tid, task.process, task.space?)));
        if let Some((tid, process, index)) = found
            && let Some(space) = &mut self.spaces[index]
        {
            space.limits_changed(Who { tid, process }, self.session);
        }
    }
}

/// Takes the result of a call on a ring of `io_uring` into its address space.
fn uring_returned(
    space: &mut Space,
    doing: &Doing,
    who: Who,
    returned: i64,
    session: &mut Session,
) {
    match *doing {
        Doing::UringSetUp { params } => {
            if let Ok(descriptor @ 0..) = i32::try_from(returned) {
                space.uring_set_up(descriptor, params, who);
            }
        }
        Doing::UringRegister(asked) => space.urings_registered(asked, returned, who),
        Doing::UringEnter => space.uring_entered(returned, who, session),
        _ => {}
    }
}

/// Returns `true` if another thread closed the descriptor of `call` between the tracer's look and
/// the kernel's. Another file may have its number.
pub(super) fn has_lost_its_descriptor(call: &Call, returned: i64) -> bool {
    let error = -returned as i32;
    match call {
        Call::UffdRegister { .. } | Call::UffdUnregister { .. } => {
            matches!(error, libc::EBADF | libc::ENOTTY)
        }
        Call::ProcessMadvise { .. } => error == libc::EBADF,
        _ => false,
    }
}

/// Returns `true` if the kernel will make the thread repeat the call (ERESTARTSYS and similar).
/// Then this return does not count.
pub(super) fn to_be_restarted(returned: i64) -> bool {
    matches!(returned, -516..=-512)
}
