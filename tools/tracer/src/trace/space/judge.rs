//! Performs a call that has returned on the engine, and judges the answer.

use samara_conformance::checker::{Checker, Evidence, Listed, Place, Verdict};
use samara_conformance::describe::Described;
use samara_conformance::replica::placed_at_random;
use samara_mm::{Call, NoPages, Pages};

use super::{PARTED, Space, Who};
use crate::trace::faulting::Faulting;
use crate::trace::samples::Known;
use crate::trace::session::Session;

/// The engine's answer to a call, and its comparison with the kernel's map so far.
struct Performed {
    verdict: Verdict,
    /// The engine's answer.
    own: i64,
    /// Ranges that were not examined before the call, and were written.
    missed: Vec<(u64, u64)>,
    /// A page showed late, and counts as written at the return.
    late: bool,
    /// The part of the map that the call can have changed agrees.
    agrees: bool,
    /// The kernel's map has been read.
    is_read: bool,
}

impl Space {
    /// Performs a call on the engine after the kernel, and judges the answer. If the thread already
    /// runs on (`running`), everything that needs its map waits for the next stop.
    pub(crate) fn finish(
        &mut self,
        call: Call,
        who: Who,
        returned: i64,
        running: bool,
        session: &mut Session,
    ) {
        session.call_number += 1;
        session.print_call(who.tid, &call, returned);
        if self.broken {
            return;
        }
        self.close_those_in_the_way(&call, who, returned, session);
        self.close_those_in_doubt(&call, who, returned, session);
        let place = Place {
            call_number: session.call_number,
            process: who.process,
        };
        let ambiguous = self.ambiguous;
        self.follow_rings(&call, returned);
        self.follow_urings(&call, returned);
        self.watched |= matches!(call, Call::UffdRegister { .. });
        session.tally.ambiguous += u64::from(ambiguous);
        self.note_concurrent(session);
        let performed = self.perform(&call, who, returned, running, session);
        let differs = performed.verdict == Verdict::Differs;
        let answers = (returned, performed.own);
        let changed = differs.then(|| self.look_for_unknown(&call, who, answers, session));
        let verdict = self.checker.judge(&call, returned, performed.verdict);
        self.look_for_growing(&call);
        session.tally.unsampled += performed.missed.len() as u64;
        let overlapped = ambiguous || performed.late;
        self.record_call(&call, who, returned, &performed.missed, overlapped, session);
        if let Some(config) = changed.flatten() {
            self.set_config(&config, session);
        }
        let own = performed.own;
        Checker::count(&call, returned, own, verdict, place, &mut session.tally);
        for address in std::mem::take(&mut self.nothing_at) {
            self.perhaps_written(address, session);
        }
        self.look_for_ends(&call, returned, who, session);
        self.doubt_arguments(&call, session);
        self.doubt_seals(&call, who, returned, session);
        self.calls_since_compare += 1;
        let reason = match verdict {
            Verdict::Agrees | Verdict::Outside => {
                if !running {
                    self.compare_after(&call, who, returned, &performed, session);
                }
                return;
            }
            Verdict::Differs => PARTED,
            Verdict::Undecided(_) => "after an undecided result",
            Verdict::NotModelled => "after a call that is not modelled",
        };
        if running {
            self.stale = Some(reason);
        } else {
            self.part(who, session, reason);
        }
    }

    /// Informs the engine of other threads' concurrent growth and changes to the call's node mask.
    fn note_concurrent(&mut self, session: &mut Session) {
        for start in self.grown_meanwhile.drain(..) {
            self.checker.may_have_grown(start);
            if let Some(record) = &mut session.record {
                record.grown_meanwhile(self.number, start);
            }
        }
        for nodes in self.nodes_meanwhile.drain(..) {
            self.checker.may_have_named(nodes);
            if let Some(record) = &mut session.record {
                record.nodes_meanwhile(self.number, nodes);
            }
        }
    }

    /// Performs a call on the engine. If a page may show late, and the maps differ, waits for it and
    /// performs the call again.
    fn perform(
        &mut self,
        call: &Call,
        who: Who,
        returned: i64,
        running: bool,
        session: &mut Session,
    ) -> Performed {
        let evidence = self.samples.evidence(self.ambiguous);
        let mut facts = Known {
            samples: &self.samples,
            pagemap: &mut self.pagemap,
            missed: Vec::new(),
        };
        // If the kernel chose the address at random, the pages around it could not be examined
        // before. Elsewhere the engine need not ask again if there was nothing.
        let nothing_new = evidence.before.is_empty() && !placed_at_random(call, returned);
        let facts_or_none: &mut dyn Pages = if nothing_new {
            &mut NoPages
        } else {
            &mut facts
        };
        // A page that shows late is searched for where the maps differ.
        let open = self.users > 1 && !running && self.samples.leave_open();
        let former = open.then(|| self.checker.try_clone().ok()).flatten();
        let (verdict, own) = self
            .checker
            .perform(call, returned, evidence, facts_or_none);
        let mut performed = Performed {
            verdict,
            own,
            missed: facts.missed,
            late: false,
            agrees: false,
            is_read: false,
        };
        if let Some(former) = former {
            self.perform_late(former, call, who, returned, &mut performed, session);
        }
        performed
    }

    /// Compares the maps after a call that left pages open, and performs the call again on `former`
    /// if a page shows late.
    fn perform_late(
        &mut self,
        mut former: Checker,
        call: &Call,
        who: Who,
        returned: i64,
        performed: &mut Performed,
        session: &mut Session,
    ) {
        let explained = matches!(performed.verdict, Verdict::Agrees | Verdict::Outside);
        performed.agrees = explained && self.compare_part(call, returned, session);
        performed.is_read = !performed.agrees && self.maps.read(&mut session.map).is_ok();
        performed.late = performed.is_read
            && self.checker.is_joined_otherwise(&session.map)
            && self.samples.wait_for_late(
                &mut self.pagemap,
                &mut Faulting::beside(who.tid, who.process),
            );
        if performed.late {
            session.tally.ambiguous += u64::from(!self.ambiguous);
            let evidence = self.samples.evidence(true);
            let facts = &mut Listed(evidence.before);
            (performed.verdict, performed.own) = former.perform(call, returned, evidence, facts);
            self.checker = former;
        }
    }

    /// Records a call with the ranges that were found written. `missed` are those that were not
    /// examined before the call. With `overlapped`, other threads may have written during the call.
    fn record_call(
        &self,
        call: &Call,
        who: Who,
        returned: i64,
        missed: &[(u64, u64)],
        overlapped: bool,
        session: &mut Session,
    ) {
        let Some(record) = &mut session.record else {
            return;
        };
        let evidence = self.samples.evidence(overlapped);
        let mut before = missed.to_vec();
        before.extend_from_slice(evidence.before);
        before.sort_unstable();
        let evidence = Evidence {
            before: &before,
            ..evidence
        };
        record.call(self.number, who.tid, returned, evidence, call);
    }

    /// Compares the map after a call whose answer agrees, unless its part is known to agree.
    fn compare_after(
        &mut self,
        call: &Call,
        who: Who,
        returned: i64,
        performed: &Performed,
        session: &mut Session,
    ) {
        if performed.agrees || !performed.is_read && self.compare_part(call, returned, session) {
            return;
        }
        let cause = Some(Described(call).to_string());
        if performed.is_read {
            self.compare_read(who, session, cause);
        } else {
            self.compare_with(who, session, cause);
        }
    }

    /// Notes an access of a thread that found nothing at `address`, or nothing behind it. If a call
    /// is under way, the access came before the kernel's part of it, or after.
    pub(crate) fn found_nothing(&mut self, address: u64, session: &mut Session) {
        if self.broken {
            return;
        }
        self.perhaps_written(address, session);
        if self.holder.is_some() {
            self.nothing_at.push(address);
        }
    }

    /// Doubts pages that were written since the last call. The write may have been pending when the
    /// kernel performed that call.
    pub(super) fn doubt_late(&mut self, session: &mut Session) {
        for (start, end) in self.samples.shown_late(&mut self.pagemap) {
            self.checker.doubt(start, end);
            if let Some(record) = &mut session.record {
                record.shown_late(self.number, start, end);
            }
        }
    }

    pub(super) fn perhaps_written(&mut self, address: u64, session: &mut Session) {
        if self.checker.may_have_written(address)
            && let Some(record) = &mut session.record
        {
            record.perhaps_written(self.number, address);
        }
    }
}
