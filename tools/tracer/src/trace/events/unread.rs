//! Calls that are read when they return: whose arguments lie below an area that grows, or that name what other threads close and make.
//!
//! When the kernel reads them, it grows the area down to them, and finds zeros. A tracer finds nothing there before, and may not grow the area itself. So
//! such a call is read when it returns. So is one that tells a userfaultfd what to watch, once more: the kernel looks at the descriptor after the tracer.

use samara_mm::Call;

use super::Tracer;
use super::task::Doing;
use crate::trace::decode::{self, Decoded};
use crate::trace::entry::Entry;
use crate::trace::space::{Space, Who};

const PAGE: u64 = 0x1000;

impl Tracer<'_> {
    /// Returns the call that returns, which could not be read at its entry.
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

    /// Returns the meaning of a returning call that registered ranges with a userfaultfd, or
    /// unregistered them. Other threads may have closed the userfaultfd and made another one, or
    /// changed the arguments. The present meaning counts if it explains the kernel's result and the
    /// one at the entry does not. Returns `None` if the kernel has found another userfaultfd that
    /// was not ready.
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
            // What the former has watched is watched no more: it has been closed.
            Some(now) if registered && space.shows_registered(&now, who.tid) => Some(now),
            _ if explains(&call) => Some(call),
            Some(now) if explains(&now) => Some(now),
            _ if returned == -i64::from(libc::EINVAL) => None,
            _ => Some(call),
        }
    }
}

impl Space {
    /// Returns `true` if another thread may still write the arguments to which a call points before
    /// the kernel reads them.
    pub(super) fn may_be_read_later(&self, entry: &Entry) -> bool {
        let Some(at) = decode::points_to(entry) else {
            return false;
        };
        // They begin there, or go on there.
        [at, at.saturating_add(PAGE - 1)]
            .iter()
            .any(|&at| self.lies_below_growth(at))
    }
}
