//! Calls that the kernel interrupts midway, and repeats.
//!
//! If a signal is pending, or a tracer wants the thread to stop, some calls end with a request to
//! be repeated (`ERESTARTSYS` and similar). The program never sees it. As a rule such a call has
//! done nothing yet.
//!
//! The exception is a `mremap` that splits merged pages (`PR_SET_MEMORY_MERGE`), at which point it
//! is interrupted (observed). If it shrinks and moves, it has already unmapped the part that it no
//! longer needs, and the mappings at its target. If it moves several areas, it has moved those
//! below the one with the merged pages, and finds a hole there the next time. Other threads' calls
//! come in between.

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
    /// Handles a `call` that the kernel will repeat. The map shows its effects so far.
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
        self.look_soon("after an interrupted call");
    }

    /// Makes the last comparison while another process registers a range here by `call`. The map
    /// shows if the kernel has performed it.
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
