//! Calls whose arguments lie below an area that grows.
//!
//! When the kernel reads them, it grows the area down to them, and finds zeros. A tracer finds nothing there before, and may not grow the area itself. So
//! such a call is read when it returns.

use super::Tracer;
use super::task::Doing;
use crate::trace::decode::{self, Decoded};
use crate::trace::ptrace::Entry;
use crate::trace::space::{Space, Who};

const PAGE: u64 = 0x1000;

impl Tracer<'_> {
    /// What a call was, which returns.
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
}

impl Space {
    /// May the arguments that a call points to come to be when the kernel reads them?
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
