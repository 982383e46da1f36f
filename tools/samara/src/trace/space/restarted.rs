//! Calls that the kernel breaks off halfway, to make them again.
//!
//! Where a signal is pending, or a tracer wants the thread to stop, some calls end with a wish to be made again (`ERESTARTSYS` and its kin), which the program
//! never sees. As a rule they have done nothing by then. A `mremap` that shrinks and moves has unmapped what it will no more need, and what is in its way, when it
//! comes to part pages that were merged (`PR_SET_MEMORY_MERGE`), which is where it is broken off (observed). One that moves several areas has moved those below the
//! one whose pages are to be parted, and finds a hole there the next time. Others' calls come in between.

use samara_mm::{AddressSpace, Call, NoPages, PAGE_SIZE};

use super::{BEFORE_EXIT, Space, Who};
use crate::follow::{Evidence, Follower};
use crate::trace::session::Session;

const MREMAP_FIXED: u64 = 2;

const NOTHING_WRITTEN: Evidence<'_> = Evidence {
    before: &[],
    after: None,
};

/// What a call that is made again may have done the first time: in each way that is possible, the calls that do the same.
fn halves(call: &Call, engine: &AddressSpace) -> Vec<Vec<Call>> {
    let Call::Mremap {
        old_addr,
        old_len,
        new_len,
        flags,
        new_addr,
    } = *call
    else {
        return Vec::new();
    };
    let aligned = |len: u64| len.checked_next_multiple_of(PAGE_SIZE).unwrap_or(len);
    let (old_len, new_len) = (aligned(old_len), aligned(new_len));
    let old_end = old_addr.saturating_add(old_len);
    let unmap = |addr: u64, len: u64| Call::Munmap { addr, len };
    let is_fixed = flags & MREMAP_FIXED != 0;
    if new_len != old_len || !is_fixed {
        let in_the_way = is_fixed.then(|| unmap(new_addr, new_len));
        let needed_no_more =
            (new_len < old_len).then(|| unmap(old_addr.saturating_add(new_len), old_len - new_len));
        return vec![in_the_way.into_iter().chain(needed_no_more).collect()];
    }
    // What lies below an area has been moved, and what is in the way of that one unmapped.
    let mut ways = Vec::new();
    let mut moved = 0;
    let mut at = old_addr;
    while let Some(area) = engine.find_intersection(at, old_end) {
        let (from, to) = (area.start.max(old_addr), area.end.min(old_end));
        let below = (moved > 0).then_some(Call::Mremap {
            old_addr,
            old_len: moved,
            new_len: moved,
            flags,
            new_addr,
        });
        let in_the_way = unmap(new_addr.saturating_add(from - old_addr), to - from);
        ways.push(below.into_iter().chain([in_the_way]).collect());
        moved = to - old_addr;
        at = to;
    }
    ways
}

impl Space {
    /// The kernel will make `call` again: what it has done so far, the map tells.
    pub(crate) fn broken_off(&mut self, call: &Call, who: Who, session: &mut Session) {
        if self.broken || self.maps.read(&mut session.map).is_err() {
            return;
        }
        if is_as_told(&mut self.follower, session) {
            return self.note_grown(session);
        }
        for calls in halves(call, self.follower.engine()) {
            let Ok(mut trial) = self.follower.try_clone() else {
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
        if !is_as_told(&mut self.follower, session)
            && let Ok(mut trial) = self.follower.try_clone()
        {
            trial.perform(call, 0, NOTHING_WRITTEN, &mut NoPages);
            if is_as_told(&mut trial, session) {
                self.finish_late(call.clone(), who, 0, session);
            }
        }
        self.compare_found(who, session, Some(BEFORE_EXIT.to_owned()));
    }
}

/// Has the kernel's map, which has been read, the areas that the engine has?
fn is_as_told(follower: &mut Follower, session: &mut Session) -> bool {
    follower
        .compare(&session.map, &mut session.grown, &mut session.tally.renamed)
        .is_ok()
}
