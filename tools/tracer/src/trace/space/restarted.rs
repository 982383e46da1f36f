//! Calls that the kernel breaks off halfway, to make them again.
//!
//! If a signal is pending, or a tracer wants the thread to stop, some calls end with a request to
//! be made again (`ERESTARTSYS` and the like), which the program never sees. Usually they have done
//! nothing by then. The exception is a `mremap` that must part merged pages
//! (`PR_SET_MEMORY_MERGE`), where it is broken off (observed). One that shrinks and moves has by
//! then unmapped the part that it no longer needs, and whatever is in its way. One that moves
//! several areas has moved those below the one whose pages must be parted, and finds a hole there
//! the next time. Other threads' calls may come in between.

use samara_conformance::checker::{Checker, Evidence};
use samara_conformance::replica::halves;
use samara_mm::{Call, NoPages};

use super::{BEFORE_EXIT, Space, Who};
use crate::trace::session::Session;

const NOTHING_WRITTEN: Evidence<'_> = Evidence {
    before: &[],
    after: None,
};

impl Space {
    /// The kernel will make `call` again: what it has done so far, the map tells.
    pub(crate) fn broken_off(&mut self, call: &Call, who: Who, session: &mut Session) {
        if self.broken || self.maps.read(&mut session.map).is_err() {
            return;
        }
        if is_as_told(&mut self.checker, session) {
            return self.note_grown(session);
        }
        for calls in halves(call, self.checker.engine()) {
            let Ok(mut trial) = self.checker.try_clone() else {
                break;
            };
            let results: Vec<i64> = calls
                .iter()
                .map(|call| trial.perform(call, 0, NOTHING_WRITTEN, &mut NoPages).1)
                .collect();
            if is_as_told(&mut trial, session) {
                self.note_grown(session);
                for (call, returned) in calls.into_iter().zip(results) {
                    self.finish_late(call, who, returned, session);
                }
                return;
            }
        }
        self.look_soon("after a call that was broken off");
    }

    /// The last comparison, while another process has something watched here by `call`: whether the kernel has come to that, the map tells.
    pub(crate) fn compare_beside(&mut self, call: &Call, who: Who, session: &mut Session) {
        self.catch_up(who, session);
        if self.broken || self.maps.read(&mut session.map).is_err() {
            return;
        }
        if !is_as_told(&mut self.checker, session)
            && let Ok(mut trial) = self.checker.try_clone()
        {
            trial.perform(call, 0, NOTHING_WRITTEN, &mut NoPages);
            if is_as_told(&mut trial, session) {
                self.finish_late(call.clone(), who, 0, session);
            }
        }
        self.compare_found(who, session, Some(BEFORE_EXIT.to_owned()));
    }
}

/// Returns `true` if the kernel's map, which has been read, has the engine's areas.
fn is_as_told(checker: &mut Checker, session: &mut Session) -> bool {
    checker
        .compare(&session.map, &mut session.grown, &mut session.tally.renamed)
        .is_ok()
}
