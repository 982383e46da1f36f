//! A call of interest begins: it is decoded, and runs when its turn has come.

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

impl Tracer<'_> {
    /// A call of interest begins.
    pub(super) fn entry(&mut self, tid: Tid, entry: Entry) {
        // Stopped by a filter of the program's own. Without a tracer of its own, it would get this.
        if entry.mark == mark::NONE {
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

    /// The address space in whose order a call comes: the caller's own, that of the process whose limits it changes, or that for which the userfaultfd is.
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

    /// Lets a call run on that holds no order; one whose arguments were changed stops again.
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

    /// Starts the call of a thread, whose turn it is.
    pub(super) fn begin(&mut self, tid: Tid, entry: Entry, index: usize) {
        if decode::tells_watcher(&entry) && !self.settles_watcher(tid, &entry, index) {
            return;
        }
        self.begin_settled(tid, entry, index);
        if matches!(self.tasks.get(&tid), Some(task) if !matches!(task.state, State::InCall(_))) {
            self.let_others_run(tid);
        }
    }

    /// For which address space a userfaultfd is decides in whose order a call comes, and other threads may close it and make another one until the kernel looks: they
    /// stand still until the call has returned. False if its turn is among the calls of another address space by now.
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

    fn begin_settled(&mut self, tid: Tid, entry: Entry, index: usize) {
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
        let is_here = task.space == Some(index);
        let doing = match decoded {
            Decoded::Perform(call) if !is_here => {
                let told = Told::Perform(call);
                Doing::Elsewhere { told, index }
            }
            Decoded::Unmodelled { changes_map: true } if !is_here => {
                let told = Told::Unmodelled(decode::name(&entry));
                Doing::Elsewhere { told, index }
            }
            Decoded::Limits(target) => {
                let target = if target == 0 { task.process } else { target };
                Doing::Limits { target, index }
            }
            // Its arguments have changed while it waited: it has no turn among the calls of others.
            _ if !is_here => return self.run_to_clone(tid),
            Decoded::Ignore | Decoded::Unmodelled { changes_map: false }
                if space.may_be_read_later(&entry) || decode::tells_watcher(&entry) =>
            {
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                let of_nothing = &Space::ring(None);
                let standing = (&*standing, entry.is_i386());
                space.prepare(of_nothing, who, standing, self.session);
                match space.may_be_read_later(&entry) {
                    true => Doing::Unread(entry),
                    false => Doing::Unmade(entry),
                }
            }
            Decoded::Perform(call) => {
                if let Call::Mmap { offset, .. } = call {
                    space.uring_mapping(entry.args[4] as i32, offset);
                }
                let standing = task.standing.get_or_insert_with(|| Standing::of(tid));
                space.nodes_at = decode::nodes_at(&entry);
                space.look_who_writes(&entry);
                space.prepare(&call, who, (standing, entry.is_i386()), self.session);
                if space.may_lose_writes(&call) && self.hold_others(tid, index) {
                    self.look_beside_held(&call, index);
                }
                let doing = match call {
                    Call::UffdRegister { .. } | Call::UffdUnregister { .. } => {
                        Doing::Watch { call, entry }
                    }
                    call => Doing::Perform(call),
                };
                return self.start(tid, index, doing);
            }
            Decoded::Fork => Doing::Fork,
            Decoded::WatcherMade => return self.aside(tid, Doing::WatcherMade),
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
            Decoded::UringRegister(asked) => return self.aside(tid, Doing::UringRegister(asked)),
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
}
