//! The start of a call of interest. The call is decoded, and runs when its turn has come.

use samara_linux::Tid;
use samara_linux::ptrace::{self, Pace};
use samara_mm::Call;

use super::Tracer;
use super::task::{Doing, State, Told};
use crate::trace::decode::{self, Decoded};
use crate::trace::entry::Entry;
use crate::trace::exec;
use crate::trace::filter::mark;
use crate::trace::seeding::Standing;
use crate::trace::space::{Space, Who};

/// The way in which a call runs.
enum Run {
    /// In its turn among the calls on an address space, to its return.
    InTurn(Doing),
    /// Outside any order, to its return.
    Aside(Doing),
    /// Outside any order. Only a call whose arguments were changed stops again at its return.
    Freely,
}

impl Tracer<'_> {
    /// Handles the start of a call of interest.
    pub(super) fn entry(&mut self, tid: Tid, entry: Entry) {
        // The program's own filter stopped this call. Without a tracer, the call would get this
        // error.
        if entry.mark == mark::NONE {
            let _ = ptrace::pass_over(tid, -i64::from(libc::ENOSYS));
            self.resume(tid, 0);
            return;
        }
        // This applies to threads that are not followed, too: a child without a tracer would get
        // ENOSYS wherever the filter stops it.
        if decode::clones_untraced(tid, &entry)
            && ptrace::set_untraced(tid, false).is_ok()
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.untraced = true;
        }
        if decode::may_be_asked(&entry) {
            exec::read_aside();
            self.run_to_clone(tid);
            return;
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

    /// Returns the address space in whose order a call comes: the caller's own, that of the process
    /// whose limits it changes, or that of its userfaultfd.
    fn order_of(&mut self, tid: Tid, entry: &Entry) -> Option<usize> {
        let own = self.tasks.get(&tid)?.space;
        let watchers = &mut self.session.watchers;
        if let Some(watcher) = decode::watcher_of(tid, entry, watchers) {
            let owner = watchers.owner(watcher);
            let number = |space: &Option<Box<Space>>| space.as_ref().map(|space| space.number);
            let owned = |space| owner.is_some() && number(space) == owner;
            return self.spaces.iter().position(owned).or(own);
        }
        match decode::limits_of(tid, entry) {
            Some(target) if target != 0 && target != tid => self
                .user(target)
                .map(|(_, task)| task.space)
                .or(Some(own))?,
            _ => own,
        }
    }

    /// Lets a call run outside any order. A call whose arguments were changed stops again at its
    /// return.
    pub(super) fn run_to_clone(&mut self, tid: Tid) {
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

    /// Starts a thread's call, whose turn it is.
    pub(super) fn begin(&mut self, tid: Tid, entry: Entry, index: usize) {
        if decode::tells_watcher(&entry) && !self.settles_watcher(tid, &entry, index) {
            return;
        }
        self.begin_settled(tid, entry, index);
        if matches!(self.tasks.get(&tid), Some(task) if !matches!(task.state, State::InCall(_))) {
            self.let_others_run(tid);
        }
    }

    /// Makes sure that a call on a userfaultfd comes in the right order, which is that of the
    /// userfaultfd's address space. Other threads may replace the userfaultfd before the kernel
    /// looks, so they stand still until the call has returned. Returns `false` if the call's turn
    /// is among those of another address space by now.
    fn settles_watcher(&mut self, tid: Tid, entry: &Entry, index: usize) -> bool {
        let own = self.tasks.get(&tid).and_then(|task| task.space);
        let users = |own: usize| self.spaces[own].as_ref().map_or(0, |space| space.users);
        if let Some(own) = own.filter(|own| users(*own) > 1) {
            self.hold_others(tid, own);
        }
        let elsewhere = self.order_of(tid, entry).is_some_and(|now| now != index);
        if elsewhere {
            self.let_others_run(tid);
            self.entry(tid, *entry);
        }
        !elsewhere
    }

    /// Decodes a call and lets it run. The userfaultfd that it may name cannot change any more.
    fn begin_settled(&mut self, tid: Tid, entry: Entry, index: usize) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            return;
        };
        if self.spaces[index].is_none() {
            self.pace.go(tid, 0);
            return;
        }
        let who = Who {
            tid,
            process: task.process,
        };
        task.result_at = entry.result_at;
        let is_here = task.space == Some(index);
        let decoded = decode::decode(
            tid,
            &entry,
            &mut self.session.files,
            &mut self.session.watchers,
        );
        let run = match is_here {
            true => self.run_here(decoded, &entry, who, index),
            false => run_elsewhere(decoded, &entry, who, index),
        };
        match run {
            Run::InTurn(doing) => self.start(tid, index, doing),
            Run::Aside(doing) => self.aside(tid, doing),
            Run::Freely => self.run_to_clone(tid),
        }
    }

    /// Prepares a call on the caller's own address space, and returns the way in which it runs.
    fn run_here(&mut self, decoded: Decoded, entry: &Entry, who: Who, index: usize) -> Run {
        let Some(space) = &mut self.spaces[index] else {
            return Run::Freely;
        };
        Run::InTurn(match decoded {
            Decoded::Limits(target) => limits(target, who, index),
            Decoded::Ignore | Decoded::Unmodelled { changes_map: false }
                if space.may_be_read_later(entry) || decode::tells_watcher(entry) =>
            {
                self.prepare(&Space::ring(None), entry, who, index);
                // The area may have grown down to the arguments in the meantime.
                match &self.spaces[index] {
                    Some(space) if space.may_be_read_later(entry) => Doing::Unread(*entry),
                    _ => Doing::Unmade(*entry),
                }
            }
            Decoded::Perform(call) => self.prepare_to_perform(call, entry, who, index),
            Decoded::Fork => Doing::Fork,
            Decoded::WatcherMade => return Run::Aside(Doing::WatcherMade),
            Decoded::Settings => return Run::Aside(Doing::Settings),
            Decoded::Listener => return Run::Aside(Doing::Listener),
            Decoded::Tracing => return Run::Aside(Doing::Tracing),
            // Without this tracer's filter the kernel accepts it, if nothing else forbids it.
            Decoded::Strict if self.pace != Pace::Filtered => return Run::Freely,
            Decoded::Strict => {
                let _ = ptrace::pass_over(who.tid, 0);
                return Run::Aside(Doing::Strict);
            }
            Decoded::Exec => {
                space.compare_changed(who, self.session, "the calls before exec");
                return Run::Freely;
            }
            Decoded::Ignore => return Run::Freely,
            Decoded::RingSetUp { pointer, narrow } => {
                self.prepare(&Space::ring(None), entry, who, index);
                Doing::RingSetUp { pointer, narrow }
            }
            Decoded::UringSetUp { params } => return Run::Aside(Doing::UringSetUp { params }),
            Decoded::UringRegister(asked) => return Run::Aside(Doing::UringRegister(asked)),
            Decoded::UringEnter(descriptor, count, flags) => {
                let submits = (descriptor, count, flags);
                return match space.uring_enters(submits, who, self.session) {
                    true => Run::Aside(Doing::UringEnter),
                    false => Run::Freely,
                };
            }
            Decoded::Filled(filling) => Doing::Filled(filling),
            Decoded::Moved { to, from } => Doing::Moved { to, from },
            Decoded::Bounds(bounds) => Doing::Bounds(bounds),
            Decoded::RingDestroyed { address } => {
                let Some(call) = space.take_ring(address) else {
                    return Run::Freely;
                };
                self.prepare(&call, entry, who, index);
                Doing::RingDestroyed(call)
            }
            Decoded::Unmodelled { changes_map } => Doing::Unmodelled {
                name: decode::name(entry),
                changes_map,
            },
        })
    }

    /// Examines the pages and the thread's permissions on which the outcome of a call depends.
    fn prepare(&mut self, call: &Call, entry: &Entry, who: Who, index: usize) {
        let (Some(task), Some(space)) = (self.tasks.get_mut(&who.tid), &mut self.spaces[index])
        else {
            return;
        };
        let standing = task.standing.get_or_insert_with(|| Standing::of(who.tid));
        space.prepare(call, who, (standing, entry.is_i386()), self.session);
    }

    /// Prepares a call that the engine will perform. Stops other threads whose writes it could hide.
    fn prepare_to_perform(&mut self, call: Call, entry: &Entry, who: Who, index: usize) -> Doing {
        if let Some(space) = &mut self.spaces[index] {
            if let Call::Mmap { offset, .. } = call {
                space.uring_mapping(entry.args[4] as i32, offset);
            }
            space.nodes_at = decode::nodes_at(entry);
            space.look_who_writes(entry);
        }
        self.prepare(&call, entry, who, index);
        let may_lose_writes = match &self.spaces[index] {
            Some(space) => space.may_lose_writes(&call),
            None => false,
        };
        if may_lose_writes && self.hold_others(who.tid, index) {
            self.look_beside_held(&call, index);
        }
        match call {
            Call::UffdRegister { .. } | Call::UffdUnregister { .. } => Doing::Watch {
                call,
                entry: *entry,
            },
            call => Doing::Perform(call),
        }
    }

    /// Lets a call run, whose turn it is.
    fn start(&mut self, tid: Tid, index: usize, doing: Doing) {
        if let Some(space) = &mut self.spaces[index] {
            space.holder = Some(tid);
        }
        self.set_state(tid, State::InCall(doing));
        ptrace::resume_to_exit(tid, 0);
        self.returns_soon = true;
    }

    /// Lets a call run to its return, outside any order.
    fn aside(&mut self, tid: Tid, doing: Doing) {
        self.set_state(tid, State::InCall(doing));
        ptrace::resume_to_exit(tid, 0);
    }
}

/// Returns the way in which a call runs in the order of address space `index`, which is not the
/// caller's.
fn run_elsewhere(decoded: Decoded, entry: &Entry, who: Who, index: usize) -> Run {
    let told = match decoded {
        Decoded::Perform(call) => Told::Perform(call),
        Decoded::Unmodelled { changes_map: true } => Told::Unmodelled(decode::name(entry)),
        Decoded::Limits(target) => return Run::InTurn(limits(target, who, index)),
        // Its arguments have changed while it waited, so it has no turn in this order.
        _ => return Run::Freely,
    };
    Run::InTurn(Doing::Elsewhere { told, index })
}

/// Returns the state for a change of the limits of `target`. 0 stands for the caller's own process.
fn limits(target: Tid, who: Who, index: usize) -> Doing {
    let target = if target == 0 { who.process } else { target };
    Doing::Limits { target, index }
}
