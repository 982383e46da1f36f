//! Calls that are read when they return: their arguments lie below an area that grows, or they name
//! descriptors that other threads close and reopen.
//!
//! When the kernel reads such arguments, it grows the area down to them, and finds zeros. A tracer
//! finds nothing there before, and may not grow the area itself. So such a call is read at its
//! return. A request to a userfaultfd is read again at its return, because the kernel looks at the
//! descriptor after the tracer.

use samara_mm::Call;

use super::Tracer;
use super::task::Doing;
use crate::trace::decode::{self, Decoded};
use crate::trace::entry::Entry;
use crate::trace::space::{Space, Who};

const PAGE: u64 = 0x1000;

impl Tracer<'_> {
    /// Decodes a call that returns and could not be read at its entry.
    pub(super) fn read_at_last(
        &mut self,
        entry: &Entry,
        who: Who,
        index: usize,
        returned: i64,
    ) -> Doing {
        let files = &mut self.session.files;
        let watchers = &mut self.session.watchers;
        match decode::decode(who.tid, entry, files, watchers) {
            Decoded::Perform(call) => {
                if let Some(space) = &mut self.spaces[index] {
                    space.prepare_late(&call, returned, self.session);
                }
                Doing::Perform(call)
            }
            Decoded::Filled(filling) => Doing::Filled(filling),
            Decoded::Moved { to, from } => Doing::Moved { to, from },
            Decoded::Unmodelled { changes_map } => Doing::Unmodelled {
                name: decode::name(entry),
                changes_map,
            },
            // It can be read no better than before.
            _ => Doing::Thread,
        }
    }

    /// Returns the request to a userfaultfd that the kernel has performed, as the call returns.
    /// Other threads may have replaced the userfaultfd or the call's arguments since the entry. The
    /// current state counts if it explains the kernel's answer and the state at the entry does not.
    /// `None` if the kernel has found another userfaultfd that was not ready.
    pub(super) fn as_made(
        &mut self,
        call: Call,
        entry: &Entry,
        who: Who,
        index: usize,
        returned: i64,
    ) -> Option<Call> {
        let files = &mut self.session.files;
        let watchers = &mut self.session.watchers;
        let now = match decode::decode(who.tid, entry, files, watchers) {
            Decoded::Perform(now) if now == call => return Some(call),
            Decoded::Perform(now) => Some(now),
            _ => None,
        };
        let Some(space) = &self.spaces[index] else {
            return Some(call);
        };
        let explains = |call: &Call| space.foretells(call, returned);
        let registered = returned == 0 && matches!(call, Call::UffdRegister { .. });
        match now {
            // The former userfaultfd was closed, so its ranges are no longer registered.
            Some(now) if registered && space.shows_registered(&now, who.tid) => Some(now),
            _ if explains(&call) => Some(call),
            Some(now) if explains(&now) => Some(now),
            _ if returned == -i64::from(libc::EINVAL) => None,
            _ => Some(call),
        }
    }
}

impl Space {
    /// Returns `true` if the arguments behind the call's pointer may come into existence when the
    /// kernel reads them.
    pub(super) fn may_be_read_later(&self, entry: &Entry) -> bool {
        let Some(at) = decode::points_to(entry) else {
            return false;
        };
        // They begin below such an area, or continue into one.
        [at, at.saturating_add(PAGE - 1)]
            .iter()
            .any(|&at| self.lies_below_growth(at))
    }
}
