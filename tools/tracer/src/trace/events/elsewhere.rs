//! Requests to a userfaultfd whose address space is not the caller's.
//!
//! A process inherits userfaultfds by a fork, or receives their descriptors. A request then changes
//! the address space of the process that made the userfaultfd. If its creation was traced, that
//! address space is known, and the call holds its order. Otherwise it is searched for when the call
//! returns.

use samara_linux::Tid;
use samara_mm::Call;

use super::Tracer;
use super::returned::{has_lost_its_descriptor, to_be_restarted};
use super::task::Told;
use crate::trace::decode::Filling;
use crate::trace::space::{Space, Who};

impl Tracer<'_> {
    /// Takes the result of a request to a userfaultfd into address space `index`, which is not the
    /// caller's.
    pub(super) fn returned_elsewhere(&mut self, told: Told, index: usize, returned: i64) {
        if to_be_restarted(returned) {
            return;
        }
        let (Some(user), Some(space)) = (self.user_of(index), &mut self.spaces[index]) else {
            return;
        };
        match told {
            Told::Perform(call) if has_lost_its_descriptor(&call, returned) => {}
            Told::Perform(call) => {
                space.sync_growth_by_another(&call, returned, self.session);
                // Otherwise its memory may have gone in the meantime.
                if returned != -i64::from(libc::ENOMEM) || space.foretells(&call, returned) {
                    space.watched_by_another(call, user, returned, self.session);
                }
            }
            Told::Unmodelled(name) => {
                space.finish_unmodelled(name, true, user, returned, self.session);
            }
        }
    }

    /// Handles pages that a userfaultfd of another process has filled: the calling process, with
    /// address space `index`, inherited it by a fork.
    pub(super) fn filled_elsewhere(&mut self, filling: &Filling, done: u64, index: usize) {
        for (other, space) in self.spaces.iter_mut().enumerate() {
            if let Some(space) = space
                && other != index
                && space.is_watched_at(filling.start)
            {
                space.take_in(filling, done, self.session);
            }
        }
    }

    /// Handles requests as [`filled_elsewhere`](Self::filled_elsewhere) does, where nothing shows
    /// that they had an effect. Even then areas of the other process have an `anon_vma`. Only a
    /// forked process has inherited a userfaultfd.
    pub(super) fn perhaps_filled_in_vain_elsewhere(&mut self, starts: &[u64], index: usize) {
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

    /// Returns one of the threads that use the address space `index`.
    fn user_of(&self, index: usize) -> Option<Who> {
        let mut users = self.tasks.iter();
        let (&tid, task) = users.find(|(_, task)| task.space == Some(index))?;
        let process = task.process;
        Some(Who { tid, process })
    }

    /// Handles a call on a userfaultfd of another process whose creation was not traced. As a rule
    /// that process forked the caller's. The call is performed in the address space that it has
    /// changed.
    pub(super) fn watched_elsewhere(&mut self, call: Call, who: Who, index: usize, returned: i64) {
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
            // Its memory is gone.
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
            // If a call is under way there, the order of the two is unknown.
            if space.holder.is_some() {
                continue;
            }
            space.sync_growth_by_another(&call, returned, self.session);
            let is_it = match owner {
                Some(owner) => owner == space.number,
                // A refused request shows nowhere.
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

    /// Notes that a call on address space `index` has changed another one, which cannot be
    /// determined.
    pub(super) fn doubt_others(&mut self, index: usize) {
        for (other, space) in self.spaces.iter_mut().enumerate() {
            if let Some(space) = space
                && other != index
            {
                space.look_soon("after another process's request to a userfaultfd");
            }
        }
    }
}
