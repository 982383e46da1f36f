//! Areas that are registered with a userfaultfd, and their state after the program has closed it.
//! No followed call reports that.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use samara_linux::Tid;
use samara_linux::pagemap::Held;
use samara_mm::{AddressSpace, Call, VmFlags};

use super::{Space, Who};
use crate::trace::decode::Filling;
use crate::trace::session::Session;
use crate::vm_flags::vm_flags;

impl Space {
    /// Informs the engine of userfaultfds that have been closed since the last call. Returns `true`
    /// if there are any.
    pub(super) fn follow_watchers(&mut self, who: Who, session: &mut Session) -> bool {
        if !self.watched || self.broken {
            return false;
        }
        let contexts: Vec<Option<NonZeroU32>> = self.watched_no_more(who.tid).collect();
        if contexts.contains(&None) {
            self.resync(who, session, "after an unknown userfaultfd was closed");
            return true;
        }
        let mut closed: Vec<NonZeroU32> = contexts.into_iter().flatten().collect();
        closed.sort_unstable();
        closed.dedup();
        let any = !closed.is_empty();
        for context in closed {
            self.finish_late(Call::UffdClose { context }, who, 0, session);
            session.watchers.forget(context);
        }
        self.watched = self
            .checker
            .engine()
            .areas()
            .any(|area| area.vma.flags.intersects(VmFlags::UFFD));
        any
    }

    /// Returns the userfaultfds of areas that the kernel no longer shows as registered.
    fn watched_no_more(&self, tid: Tid) -> impl Iterator<Item = Option<NonZeroU32>> {
        let flags = vm_flags(tid).ok();
        let is_watched = move |address: u64| {
            let flags = flags.as_deref()?;
            let covering = flags.iter().rfind(|(start, _)| *start <= address);
            Some(covering.is_some_and(|(_, flags)| flags.intersects(VmFlags::UFFD)))
        };
        let areas = self.checker.engine().areas();
        let watched = areas.filter(|area| area.vma.flags.intersects(VmFlags::UFFD));
        watched
            .filter(move |area| is_watched(area.start) == Some(false))
            .map(|area| area.vma.uffd)
    }

    /// Closes userfaultfds that other threads may have closed during a call, if that explains why
    /// the call returned something else than the engine predicts.
    pub(super) fn close_those_in_doubt(
        &mut self,
        call: &Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        let may_be = self.watched && self.users > 1 && !matches!(call, Call::UffdClose { .. });
        if !may_be || self.foretells(call, returned) {
            return;
        }
        let closed: BTreeSet<NonZeroU32> = self.watched_no_more(who.tid).flatten().collect();
        let explained = self.engine().try_clone().is_ok_and(|mut trial| {
            for &context in &closed {
                let _ = trial.perform(&Call::UffdClose { context });
            }
            samara_conformance::describe::returned(trial.perform(call)) == returned
        });
        if !closed.is_empty() && explained {
            for context in closed {
                self.finish_late(Call::UffdClose { context }, who, 0, session);
                session.watchers.forget(context);
            }
            let engine = self.checker.engine();
            self.ambiguous = self.samples.take_late(engine, call, &mut self.pagemap);
        }
    }

    /// Closes other userfaultfds of the range that `call` has registered or unregistered. They must
    /// have been closed while the call began.
    pub(super) fn close_those_in_the_way(
        &mut self,
        call: &Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        let (Call::UffdRegister {
            context, addr, len, ..
        }
        | Call::UffdUnregister {
            context, addr, len, ..
        }) = *call
        else {
            return;
        };
        let engine = self.checker.engine();
        let end = addr.saturating_add(len);
        let within = engine
            .areas()
            .filter(|area| area.start < end && area.end > addr);
        let others = within.filter_map(|area| area.vma.uffd.filter(|by| *by != context));
        let others: BTreeSet<NonZeroU32> = others.collect();
        if returned != 0 || others.is_empty() || self.foretells(call, returned) {
            return;
        }
        for context in others {
            self.finish_late(Call::UffdClose { context }, who, 0, session);
            session.watchers.forget(context);
        }
        // Closing these has replaced the samples of `call`.
        let engine = self.checker.engine();
        self.ambiguous = self.samples.take_late(engine, call, &mut self.pagemap);
    }

    /// Handles a request to a userfaultfd to fill pages. `done` is the number of bytes that it may
    /// have filled. Returns `false` if it shows that nothing was filled.
    pub(crate) fn filled(
        &mut self,
        filling: &Filling,
        done: Option<u64>,
        session: &mut Session,
    ) -> bool {
        let some = done.is_some_and(|done| self.take_in(filling, done, session));
        if !some || filling.poison.is_none() {
            self.filled_in_vain(filling.start, session);
        }
        some
    }

    /// Informs the engine of pages that a userfaultfd has poisoned, or has brought where markers
    /// were, by the page tables. Nothing else shows which pages these are. Returns `false` if there
    /// are none.
    pub(crate) fn take_in(&mut self, filling: &Filling, done: u64, session: &mut Session) -> bool {
        let (start, end) = (filling.start, filling.start + done);
        let poison = filling.poison.is_some();
        if self.broken || !poison && !self.engine().has_markers(start, end) {
            return !poison && self.is_watched_at(start);
        }
        let kind = if poison { Held::Marker } else { Held::Page };
        let Ok(runs) = self.pagemap.held(start, end, kind) else {
            return false;
        };
        for &(from, to) in &runs {
            if poison {
                self.checker.poison(from, to);
            } else {
                self.checker.note_brought(from, to);
            }
            if let Some(record) = &mut session.record {
                match poison {
                    true => record.poisoned(self.number, from, to),
                    false => record.brought(self.number, from, to),
                }
            }
        }
        !runs.is_empty()
    }

    /// Returns `true` if the area at `address` is registered with a userfaultfd.
    pub(crate) fn is_watched_at(&self, address: u64) -> bool {
        let area = self.engine().lookup(address);
        area.is_some_and(|area| area.vma.flags.intersects(VmFlags::UFFD))
    }

    /// Returns `true` if it began as a copy of another address space, whose userfaultfds it has
    /// inherited.
    pub(crate) fn is_forked(&self) -> bool {
        self.forked
    }

    /// Handles a request to fill memory at `start` that showed no effect. Private memory has an
    /// `anon_vma` afterwards, even if nothing was filled or nothing is registered there. Older
    /// kernels check more before that.
    pub(crate) fn filled_in_vain(&mut self, start: u64, session: &mut Session) {
        if !self.broken {
            self.perhaps_written(start, session);
        }
    }

    /// Returns `true` if the kernel has handled the call on a userfaultfd in this address space.
    /// The userfaultfd may belong to another process, which forked this one. A userfaultfd that has
    /// registered areas here does not.
    pub(crate) fn is_own_watcher(
        &self,
        call: &Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) -> bool {
        let (Call::UffdRegister { context, .. } | Call::UffdUnregister { context, .. }) = *call
        else {
            return true;
        };
        if let Some(owner) = session.watchers.owner(context) {
            return owner == self.number;
        }
        if matches!(call, Call::UffdRegister { .. }) && returned == 0 {
            let own = self.shows_registered(call, who.tid);
            if own {
                session.watchers.is_for(context, self.number);
            }
            return own;
        }
        let watches = |area: samara_mm::Area<'_>| area.vma.uffd == Some(context);
        !self.forked || self.engine().areas().any(watches) || self.foretells(call, returned)
    }

    /// Returns `true` if the engine would answer like the kernel.
    pub(crate) fn foretells(&self, call: &Call, returned: i64) -> bool {
        let answer = |mut trial: AddressSpace| {
            samara_conformance::describe::returned(trial.perform(call)) == returned
        };
        self.engine().try_clone().is_ok_and(answer)
    }

    /// Returns `true` if smaps now shows a registration in the range that a call has registered.
    /// `tid` is a thread of the address space. Smaps gives only starts of areas, so the engine
    /// gives the ends. Ranges outside areas do not count here, nor do those of other userfaultfds.
    pub(crate) fn shows_registered(&self, call: &Call, tid: Tid) -> bool {
        let Call::UffdRegister {
            context, addr, len, ..
        } = *call
        else {
            return false;
        };
        if self.broken {
            return false;
        }
        let engine = self.checker.engine();
        vm_flags(tid).is_ok_and(|flags| {
            let end = addr.saturating_add(len);
            let mut within = engine.areas().filter(|area| {
                let by_others = area.vma.uffd.is_some_and(|watcher| watcher != context);
                area.start < end && area.end > addr && !by_others
            });
            within.any(|area| {
                let from = area.start.max(addr);
                let covering = flags.iter().rfind(|(start, _)| *start <= from);
                covering.is_some_and(|(_, flags)| flags.intersects(VmFlags::UFFD))
            })
        })
    }

    /// Performs another process's call on a userfaultfd of this address space: it has registered or
    /// unregistered a range, or was refused.
    pub(crate) fn watched_by_another(
        &mut self,
        call: Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        if let (Call::UffdRegister { context, .. }, 0) = (&call, returned) {
            session.watchers.is_for(*context, self.number);
        }
        self.finish_late(call, who, returned, session);
    }

    /// Ends a call that the kernel has performed while the threads of this address space ran.
    pub(super) fn finish_late(
        &mut self,
        call: Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        let engine = self.checker.engine();
        self.ambiguous = self.samples.take_late(engine, &call, &mut self.pagemap);
        self.finish(call, who, returned, true, session);
        self.ambiguous = false;
    }
}
