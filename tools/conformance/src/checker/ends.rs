//! Files that end before what is mapped of them, and userfaultfds that do not answer the kernel: which page is not to be had, only the kernel knows.
//!
//! A write there is answered by `SIGBUS`, and a call that fills pages in comes as far as there. Neither leaves a page behind, but the area has its
//! anon_vma from then on (observed: a private mapping of a file that is written beyond its end no longer joins what continues it).

use samara_mm::{Area, Call, Errno, Pages, VmFlags, Watch};

use super::{Checker, Evidence, Listed, learn};
use crate::orderings::orderings;
use crate::replica::{Replica, filled_in, lacking};

/// The most areas in the range of one call whose ends are searched.
const AREAS: usize = 8;

/// Says of one area that it has no page there, and passes questions on.
struct Ends<'a> {
    at: u64,
    facts: &'a mut dyn Pages,
}

impl Watch for Ends<'_> {
    fn informed(&self) -> bool {
        self.facts.informed()
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        self.facts.written(start, end)
    }

    fn listens_to_maps(&self) -> bool {
        false
    }

    fn populate(&mut self, _: u64, _: u64, area: &Area<'_>, _: bool) -> Result<(), Errno> {
        match (area.start..area.end).contains(&self.at) {
            true => Err(Errno::EFAULT),
            false => Ok(()),
        }
    }
}

impl Replica {
    /// Returns `true` if a write there may have left its trace in the area, and no page.
    fn may_be_written_at(&self, address: u64) -> bool {
        // The program may not write everywhere, but what a userfaultfd is to fill in may be anything.
        self.engine.lookup(address).is_some_and(|area| {
            area.vma.anon().is_none() && !area.vma.flags.contains(VmFlags::SHARED)
        })
    }
}

impl Checker {
    /// Notes an access to `address` that found nothing behind it, or would have, or that a userfaultfd was
    /// asked to fill in. If it was a write, the area has an anon_vma. Where nothing is mapped, a growth may
    /// have failed. Returns `false` if it does not matter.
    ///
    /// What the kernel writes there for the program (`read(2)`) leaves no trace at all, neither before nor from now on: what becomes of the area is in doubt.
    pub fn may_have_written(&mut self, address: u64) -> bool {
        let mut fresh = Vec::new();
        let mut doubted = false;
        if let Some(area) = self.replica.engine.lookup(address)
            && area.vma.file().is_some()
            && !area.vma.flags.contains(VmFlags::SHARED)
        {
            self.doubts.note(&[(area.start, area.end)]);
            doubted = true;
        }
        for replica in self.replicas() {
            if replica.may_be_written_at(address)
                && let Ok(mut other) = replica.try_clone()
            {
                other.engine.note_written(address, address + 1);
                fresh.push(other);
            }
            fresh.extend(replica.grown_in_vain(address));
        }
        if fresh.is_empty() {
            return doubted;
        }
        self.alternatives.append(&mut fresh);
        self.thin_out();
        true
    }

    /// Areas in which a call that failed may have come to a page that is not to be had; none if it did not fail for this reason.
    pub(super) fn ends(&self, call: &Call, returned: i64) -> Vec<u64> {
        let mut found = Vec::new();
        for (start, end) in filled_in(call, returned) {
            let areas = lacking(self.engine(), start, end);
            found.extend(areas.map(|area| area.start.max(start)));
        }
        found.truncate(AREAS);
        found
    }

    /// Returns each replica after a call that came as far as one of `ends`, where that explains the
    /// answer.
    pub(super) fn performed_to_an_end(
        &self,
        call: &Call,
        returned: i64,
        evidence: Evidence<'_>,
        facts: &mut dyn Pages,
        ends: &[u64],
    ) -> Vec<Replica> {
        let orders = orderings(evidence.before, evidence.after);
        let mut listed = Listed(evidence.before);
        let mut found: Vec<Replica> = Vec::new();
        let mut explain = |replica: &Replica, facts: &mut dyn Pages| {
            for &at in ends {
                for order in std::iter::once(None).chain(orders.iter().map(Some)) {
                    let Ok(mut other) = replica.try_clone() else {
                        continue;
                    };
                    learn(&mut other, order.map_or(&[], |order| order));
                    let facts = &mut *facts;
                    let answer = other.engine.perform_with(call, &mut Ends { at, facts });
                    if crate::describe::returned(answer) == returned {
                        found.push(other);
                    }
                }
            }
        };
        explain(&self.replica, facts);
        for other in &self.alternatives {
            explain(other, &mut listed);
        }
        found
    }

    /// Returns `true` if the result would be the same if no file ended.
    pub(super) fn needs_no_end(&self, call: &Call, returned: i64, facts: &mut dyn Pages) -> bool {
        let plain = self.replica.try_clone();
        plain.is_ok_and(|mut plain| {
            crate::describe::returned(plain.engine.perform_with(call, facts)) == returned
        })
    }

    /// Goes on with those that came to an end, and with no other.
    pub(super) fn go_on_with(&mut self, mut found: Vec<Replica>) {
        self.performed += found.len() as u64;
        self.replica = found.remove(0);
        self.alternatives = found;
        self.thin_out();
    }
}
