//! A call returns: the engine takes in its result, and the next that waits for the address space begins.

use samara_linux::Tid;
use samara_linux::memory;
use samara_linux::ptrace;
use samara_mm::Call;

use super::Tracer;
use super::task::{Doing, State, Told};
use crate::trace::decode::Filling;
use crate::trace::space::{Space, Who};

impl Tracer<'_> {
    /// A call returns.
    pub(super) fn call_returned(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            self.pace.go(tid, 0);
            return;
        };
        let State::InCall(doing) = std::mem::replace(&mut task.state, State::Running) else {
            self.pace.go(tid, 0);
            return;
        };
        let who = Who {
            tid,
            process: task.process,
        };
        let returned = match (ptrace::result(tid), task.result_at) {
            (Ok(0), Some(at)) => memory::read_half(tid, at).map_or(0, |address| address as i64),
            (Ok(returned), _) => returned,
            // Killed at this moment: its exit event follows, and finds it in its call. Or it has not returned yet.
            (Err(_), _) => {
                task.state = State::InCall(doing);
                ptrace::resume_to_exit(tid, 0);
                return;
            }
        };
        task.result_at = None;
        if std::mem::take(&mut task.untraced) {
            let _ = ptrace::set_untraced(tid, true);
        }
        let Some(index) = task.space else {
            self.pace.go(tid, 0);
            return;
        };
        let Some(doing) = self.returned_aside(doing, who, index, returned) else {
            return;
        };
        let doing = match doing {
            Doing::Unread(entry) => self.read_at_last(&entry, who, index, returned),
            Doing::Unmade(entry) if returned == 0 => {
                self.read_at_last(&entry, who, index, returned)
            }
            Doing::Watch { call, entry } => self
                .as_made(call, &entry, who, index, returned)
                .map_or(Doing::Thread, Doing::Perform),
            read => read,
        };
        if matches!(doing, Doing::Perform(_)) {
            self.hear_others(tid, index);
        }
        let mut running = false;
        let mut kept = false;
        let mut of_another = None;
        let mut elsewhere = None;
        let mut unknown_elsewhere = false;
        let mut in_vain = Vec::new();
        if let (Doing::Perform(call), Some(space)) = (&doing, &mut self.spaces[index])
            && to_be_restarted(returned)
        {
            space.broken_off(call, who, self.session);
        } else if let Some(space) = &mut self.spaces[index]
            && !to_be_restarted(returned)
        {
            match doing {
                Doing::Filled(filling) => {
                    let done = filling.done(tid, returned);
                    if !space.filled(&filling, done, self.session) {
                        elsewhere = done.map(|done| (filling, done));
                        in_vain.push(filling.start);
                    }
                }
                // Even if nothing was moved there, it has an owner, and so has what was written to and moved away.
                Doing::Moved { to, from } => {
                    let name = "ioctl(UFFDIO_MOVE)";
                    space.finish_unmodelled(name, true, who, returned, self.session);
                    space.filled_in_vain(to, self.session);
                    space.filled_in_vain(from, self.session);
                    in_vain.extend([to, from]);
                }
                Doing::Bounds(bounds) if returned == 0 => {
                    space.bounds_set(bounds, who, self.session);
                }
                Doing::Perform(call) if has_lost_its_descriptor(&call, returned) => {}
                Doing::Perform(call)
                    if !space.is_own_watcher(&call, who, returned, self.session) =>
                {
                    of_another = Some(call);
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
                    // The userfaultfd of a parent, perhaps, that was made before anybody looked.
                    unknown_elsewhere = name.contains("UFFDIO") && space.is_forked();
                }
                // A fork that failed: its event would have come before. The others are done with.
                _ => {}
            }
        }
        if let Some(call) = of_another {
            self.watched_elsewhere(call, who, index, returned);
        }
        if unknown_elsewhere {
            self.doubt_others(index);
        }
        if let Some((filling, done)) = elsewhere {
            self.filled_elsewhere(&filling, done, index);
        }
        self.perhaps_filled_in_vain_elsewhere(&in_vain, index);
        if !kept {
            self.session.files.release();
        }
        if !running {
            self.pace.go(tid, 0);
        }
        self.release(index, tid);
    }

    /// A call returns that holds no order, or that of another's address space. Gives back what does.
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
            Doing::UringSetUp { params } => {
                if let (Ok(descriptor), Some(space)) =
                    (i32::try_from(returned), &mut self.spaces[index])
                    && descriptor >= 0
                {
                    space.uring_set_up(descriptor, params, who);
                }
            }
            Doing::UringRegister(asked) => {
                if let Some(space) = &mut self.spaces[index] {
                    space.urings_registered(asked, returned, who);
                }
            }
            Doing::UringEnter => {
                if let Some(space) = &mut self.spaces[index] {
                    space.uring_entered(returned, who, self.session);
                }
            }
            Doing::Limits { target, index } => {
                if returned == 0 {
                    // Of its own process, it can be asked itself: another thread may be about to end, and tell nothing.
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
                if !to_be_restarted(returned)
                    && let (Some(user), Some(space)) =
                        (self.user_of(index), &mut self.spaces[index])
                {
                    match told {
                        Told::Perform(call) if has_lost_its_descriptor(&call, returned) => {}
                        Told::Perform(call) => {
                            space.sync_growth_by_another(&call, returned, self.session);
                            // Or else its memory has gone in the meantime.
                            if returned != -i64::from(libc::ENOMEM)
                                || space.foretells(&call, returned)
                            {
                                space.watched_by_another(call, user, returned, self.session);
                            }
                        }
                        Told::Unmodelled(name) => {
                            space.finish_unmodelled(name, true, user, returned, self.session);
                        }
                    }
                }
                self.pace.go(tid, 0);
                self.release(index, tid);
                return None;
            }
            ordered => return Some(ordered),
        }
        self.pace.go(tid, 0);
        None
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

    /// As [`filled_elsewhere`](Self::filled_elsewhere), if nothing shows that it came to anything: even then areas of the other have an owner. Only who was forked has
    /// inherited a userfaultfd.
    fn perhaps_filled_in_vain_elsewhere(&mut self, starts: &[u64], index: usize) {
        if !self.spaces[index].as_deref().is_some_and(Space::is_forked) {
            return;
        }
        for (other, space) in self.spaces.iter_mut().enumerate() {
            if let Some(space) = space
                && other != index
            {
                for &start in starts {
                    space.filled_in_vain(start, self.session);
                }
            }
        }
    }

    /// One of the threads that use the address space `index`.
    fn user_of(&self, index: usize) -> Option<Who> {
        let mut users = self.tasks.iter();
        let (&tid, task) = users.find(|(_, task)| task.space == Some(index))?;
        let process = task.process;
        Some(Who { tid, process })
    }

    /// Handles a thread's use of a userfaultfd of another process whose creation was not traced:
    /// usually the other process forked this one. The call is performed in the address space that
    /// it has changed.
    fn watched_elsewhere(&mut self, call: Call, who: Who, index: usize, returned: i64) {
        let (Call::UffdRegister { context, .. } | Call::UffdUnregister { context, .. }) = call
        else {
            return;
        };
        let owner = self.session.watchers.owner(context);
        let is_followed = |number| {
            self.spaces
                .iter()
                .flatten()
                .any(|space| space.number == number)
        };
        if owner.is_some_and(|number| !is_followed(number)) {
            // Its memory has gone.
            return;
        }
        let users: Vec<(Tid, Tid, usize)> = self
            .tasks
            .iter()
            .filter_map(|(tid, task)| Some((*tid, task.process, task.space?)))
            .filter(|(.., other)| *other != index)
            .collect();
        for (tid, process, other) in users {
            let Some(space) = &mut self.spaces[other] else {
                continue;
            };
            // Of two calls under way there, the order is unknown.
            if space.holder.is_some() {
                continue;
            }
            space.sync_growth_by_another(&call, returned, self.session);
            let is_it = match owner {
                Some(owner) => owner == space.number,
                // One that was refused shows nowhere.
                None => returned == 0 && space.shows_registered(&call, tid),
            };
            if is_it {
                let who = Who { tid, process };
                return space.watched_by_another(call, who, returned, self.session);
            }
        }
        let name = match call {
            Call::UffdRegister { .. } => "ioctl(UFFDIO_REGISTER) for another process",
            _ => "ioctl(UFFDIO_UNREGISTER) for another process",
        };
        if let Some(space) = &mut self.spaces[index] {
            space.finish_unmodelled(name, false, who, returned, self.session);
        }
        if returned == 0 {
            self.doubt_others(index);
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

    /// Notes that the limits of a thread's process must be read again.
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

/// Returns `true` if another thread may have closed the descriptor that `call` names between the
/// tracer's look and the kernel's. Another object may then have its number.
fn has_lost_its_descriptor(call: &Call, returned: i64) -> bool {
    let error = -returned as i32;
    match call {
        Call::UffdRegister { .. } | Call::UffdUnregister { .. } => {
            matches!(error, libc::EBADF | libc::ENOTTY)
        }
        Call::ProcessMadvise { .. } => error == libc::EBADF,
        _ => false,
    }
}

/// The kernel will make the thread call again (ERESTARTSYS and its kin): this time counts for nothing.
fn to_be_restarted(returned: i64) -> bool {
    matches!(returned, -516..=-512)
}
