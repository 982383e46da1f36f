//! A call that has returned: performed on the engine, and judged.

use samara_conformance::checker::{Checker, Evidence, Listed, Place, Verdict};
use samara_conformance::describe::Described;
use samara_conformance::replica::placed_at_random;
use samara_mm::{Call, NoPages, Pages};

use super::{PARTED, Space, Who};
use crate::trace::faulting::Faulting;
use crate::trace::samples::Known;
use crate::trace::session::Session;

impl Space {
    /// After the kernel has performed a call: performs it on the engine, and judges. If the thread already runs on (`running`), what
    /// needs its map waits for the next stop.
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
        let evidence = self.samples.evidence(ambiguous);
        let mut facts = Known {
            samples: &self.samples,
            pagemap: &mut self.pagemap,
            missed: Vec::new(),
        };
        // If the kernel drew the place by lot, the pages around it could not be read before.
        // Elsewhere the engine need not ask again if there was nothing.
        let nothing_new = evidence.before.is_empty() && !placed_at_random(&call, returned);
        let facts_or_none: &mut dyn Pages = if nothing_new {
            &mut NoPages
        } else {
            &mut facts
        };
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
        // A page that shows late is looked for where the maps have parted.
        let open = self.users > 1 && !running && self.samples.leave_open();
        let mut agrees = false;
        let former = open.then(|| self.checker.try_clone().ok()).flatten();
        let (mut verdict, mut own) = self
            .checker
            .perform(&call, returned, evidence, facts_or_none);
        let missed = facts.missed;
        let (mut is_read, mut late) = (false, false);
        if let Some(mut former) = former {
            let explained = matches!(verdict, Verdict::Agrees | Verdict::Outside);
            agrees = explained && self.compare_part(&call, returned, session);
            is_read = !agrees && self.maps.read(&mut session.map).is_ok();
            late = is_read
                && self.checker.is_joined_otherwise(&session.map)
                && self.samples.wait_for_late(
                    &mut self.pagemap,
                    &mut Faulting::beside(who.tid, who.process),
                );
            if late {
                session.tally.ambiguous += u64::from(!ambiguous);
                let evidence = self.samples.evidence(true);
                let facts = &mut Listed(evidence.before);
                (verdict, own) = former.perform(&call, returned, evidence, facts);
                self.checker = former;
            }
        }
        let differs = verdict == Verdict::Differs;
        let answers = (returned, own);
        let changed = differs.then(|| self.look_for_unknown(&call, who, answers, session));
        let verdict = self.checker.judge(&call, returned, verdict);
        self.look_for_growing(&call);
        let evidence = self.samples.evidence(ambiguous || late);
        session.tally.unsampled += missed.len() as u64;
        if let Some(record) = &mut session.record {
            let mut before = missed;
            before.extend_from_slice(evidence.before);
            before.sort_unstable();
            let evidence = Evidence {
                before: &before,
                ..evidence
            };
            record.call(self.number, who.tid, returned, evidence, &call);
        }
        if let Some(config) = changed.flatten() {
            self.set_config(&config, session);
        }
        Checker::count(&call, returned, own, verdict, place, &mut session.tally);
        for address in std::mem::take(&mut self.nothing_at) {
            self.perhaps_written(address, session);
        }
        self.look_for_ends(&call, returned, who, session);
        self.doubt_arguments(&call, session);
        self.doubt_seals(&call, who, returned, session);
        self.calls_since_compare += 1;
        let reason = match verdict {
            Verdict::Agrees | Verdict::Outside if running => return,
            Verdict::Agrees | Verdict::Outside => {
                let cause = Some(Described(&call).to_string());
                if agrees || !is_read && self.compare_part(&call, returned, session) {
                    return;
                }
                if is_read {
                    self.compare_read(who, session, cause);
                } else {
                    self.compare_with(who, session, cause);
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

    /// An access of one of the threads found nothing at `address`, or nothing behind it. While a call is under way, it came before the kernel's part of that, or after.
    pub(crate) fn found_nothing(&mut self, address: u64, session: &mut Session) {
        if self.broken {
            return;
        }
        self.perhaps_written(address, session);
        if self.holder.is_some() {
            self.nothing_at.push(address);
        }
    }

    /// Notes that writes since the last call may have been under way during the kernel's part of
    /// it.
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
