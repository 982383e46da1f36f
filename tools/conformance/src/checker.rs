//! The engine compared with one real (or recorded) address space: it performs a call, judges the
//! result, and compares the maps.
//!
//! # What cannot be known
//!
//! Page faults between two calls are learnt afterwards, from the pages, and all at once. Their order is
//! unknown, and with several threads also if one came before or after the kernel's part of a call. Both can
//! decide which areas share an anon_vma, and that decides, perhaps much later, which areas merge.
//!
//! Wherever this could matter, the checker follows one replica of the engine under each hypothesis. (What
//! one fault took from a neighbour, the next may take from it.) All replicas perform every call, until the
//! kernel's map refutes all but one kind. If none is left, that is a mismatch. Hypotheses that are given up
//! undecided are counted, and a difference that they may have explained is undecided, too (`doubts`).
//!
//! The same holds for a fault that grows a stack during a call of another thread, and for a set of nodes
//! that another thread changes while the kernel reads it. Further unknowns are the end of a file that is
//! mapped beyond its end (`ends`), stacks that could not grow (`vain`), and the open file behind an area
//! that existed before the trace (`reopened`).

mod doubts;
mod ends;
mod figures;
mod maps;
mod reopened;
mod unknown;
mod vain;

use samara_mm::{AddressSpace, Call, Config, Errno, Limits, NoPages, Pages, Watch};

use crate::checker::doubts::Doubts;
use crate::orderings::{Range, apart, orderings, orders, untried};
pub use crate::replica::Verdict;
use crate::replica::{Replica, halves, maps_device_over_others, replaced_by};
use crate::tally::Tally;
use crate::undecided::Unknown;

/// The most hypotheses that are followed besides the likeliest.
const ALTERNATIVES: usize = 15;
/// The number of hypotheses from which on the kernel's map should be compared soon.
const UNDECIDED: usize = 3;
/// The number of calls after which a hypothesis that nothing has refuted or preferred is given up.
const PATIENCE: u32 = 1000;

/// The checker of one address space: the engine under the likeliest hypothesis, and those under others
/// that nothing has refuted.
#[derive(Debug)]
pub struct Checker {
    replica: Replica,
    /// The same under other assumptions.
    alternatives: Vec<Replica>,
    /// The pages that were found written before a fork that comes next, in the likeliest order.
    noted: Vec<Range>,
    /// The starts to which areas had grown when the call that comes next returned, but not at its
    /// entry.
    meanwhile: Vec<u64>,
    /// Other sets of nodes that the kernel may have read for the call that comes next.
    named: Vec<u64>,
    /// Calls that the others have performed.
    performed: u64,
    /// Others that nothing had refuted, but that were too many or too old.
    given_up: u64,
    /// The ranges in which given-up hypotheses differed, and those in which something else is
    /// unknown.
    doubts: Doubts,
    /// Why a wrong answer to the call that comes next decides nothing.
    next_unknown: Option<Unknown>,
    /// The number of times that a hypothesis has replaced `replica`.
    replaced: u64,
}

/// Ranges of areas that were found to hold anonymous pages and had not been known to, ascending.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Those at the entry of the call.
    pub before: &'a [Range],
    /// Those at its return, if these are more and other threads run in the address space.
    pub after: Option<&'a [Range]>,
}

/// The place of a finding.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The number of the call, counted over the whole trace from 1.
    pub call_number: u64,
    /// The process that made it.
    pub process: i32,
}

/// The written ranges of a list, of which the engine asks.
pub struct Listed<'a>(pub &'a [(u64, u64)]);

impl Watch for Listed<'_> {
    fn informed(&self) -> bool {
        true
    }

    fn listens(&self) -> bool {
        false
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        // Exactly as asked, or, by an engine that asks otherwise than the one that the list was made for, as well as can be told.
        self.0
            .iter()
            .any(|&(from, to)| from >= start && to <= end || from <= start && to >= end)
    }
}

fn learn(replica: &mut Replica, written: &[Range]) {
    for &(start, end) in written {
        replica.engine.note_written(start, end);
    }
}

/// Returns `true` if a hypothesis survives a call with this verdict. A failure for reasons outside
/// the address space refutes none.
fn explains(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Agrees | Verdict::Outside)
}

/// Grows areas down, as far as the engine finds it possible. False if it was possible nowhere.
fn grow(replica: &mut Replica, starts: &[u64]) -> bool {
    let grown = starts.iter().filter(|start| replica.grow_as_seen(**start));
    grown.count() > 0
}

/// Returns the same call with another set of nodes, if it names one.
fn naming(call: &Call, other: u64) -> Option<Call> {
    let mut call = call.clone();
    let Call::Mbind { nodes, .. } = &mut call else {
        return None;
    };
    *nodes = other;
    Some(call)
}

impl Checker {
    /// Creates the checker of a new program's address space. With `shared`, calls are performed as while
    /// other threads may read the engine's map, and maps are compared as these see them.
    pub fn new(engine: AddressSpace, shared: bool) -> Self {
        Self::with(Replica::new(engine, shared))
    }

    /// Creates the checker of a process that had run before. Maps that are compared tell which areas have
    /// one owner of private pages.
    pub fn found(engine: AddressSpace, shared: bool) -> Self {
        Self::with(Replica::found(engine, shared))
    }

    fn with(replica: Replica) -> Self {
        Self {
            replica,
            alternatives: Vec::new(),
            noted: Vec::new(),
            meanwhile: Vec::new(),
            named: Vec::new(),
            performed: 0,
            given_up: 0,
            doubts: Doubts::default(),
            next_unknown: None,
            replaced: 0,
        }
    }

    /// Goes on with an engine that was built from the kernel's map. Takes over what no map shows from the
    /// one that disagreed.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn start_anew(&mut self, mut engine: AddressSpace, tally: &mut Tally) -> Result<(), Errno> {
        engine.take_over(&self.replica.engine)?;
        self.retire(false, tally);
        let doubts = std::mem::take(&mut self.doubts);
        *self = Self::with(self.replica.anew(engine));
        self.doubts = doubts;
        Ok(())
    }

    /// Returns the engine under the likeliest hypothesis.
    pub fn engine(&self) -> &AddressSpace {
        &self.replica.engine
    }

    /// Returns how often another hypothesis became the likeliest: areas may differ anywhere then.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Returns the engine under the likeliest hypothesis, at the end.
    pub fn into_engine(self) -> AddressSpace {
        self.replica.engine
    }

    /// Clones all hypotheses, before a call that may have to be performed again.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self {
            replica: self.replica.try_clone()?,
            alternatives: self
                .alternatives
                .iter()
                .map(Replica::try_clone)
                .collect::<Result<_, _>>()?,
            noted: self.noted.clone(),
            meanwhile: self.meanwhile.clone(),
            named: self.named.clone(),
            performed: self.performed,
            given_up: self.given_up,
            doubts: self.doubts.clone(),
            next_unknown: self.next_unknown,
            replaced: self.replaced,
        })
    }

    fn replicas(&mut self) -> impl Iterator<Item = &mut Replica> {
        std::iter::once(&mut self.replica).chain(&mut self.alternatives)
    }

    /// Returns the checker of the child of a fork.
    ///
    /// # Errors
    /// Those of the engine's fork.
    pub fn fork(&mut self) -> Result<Self, Errno> {
        self.settle();
        Ok(Self {
            replica: self.replica.fork()?,
            alternatives: self
                .alternatives
                .iter_mut()
                .filter_map(|other| other.fork().ok())
                .collect(),
            noted: Vec::new(),
            meanwhile: Vec::new(),
            named: Vec::new(),
            performed: 0,
            given_up: 0,
            doubts: self.doubts.clone(),
            next_unknown: None,
            replaced: 0,
        })
    }

    /// Notes pages of `start..end` that were found written before the next fork. Call it from the highest
    /// range to the lowest.
    pub fn note_written(&mut self, start: u64, end: u64) {
        self.noted.push((start, end));
    }

    /// Tells the engines what was noted: in the order in which it was, and in the other orders where areas
    /// that are written for the first time touch.
    pub fn settle(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        let touched = |area: &samara_mm::Area<'_>| {
            noted
                .iter()
                .any(|&(start, end)| start < area.end && area.start < end)
        };
        let new: Vec<Range> = self
            .engine()
            .areas()
            .filter(|area| area.vma.anon().is_none() && touched(area))
            .map(|area| (area.start, area.end))
            .collect();
        let mut found = Vec::new();
        if !apart(&new) {
            orders(&new, &mut found);
        }
        let mut fresh: Vec<Replica> = Vec::new();
        for replica in self.replicas() {
            for order in &found {
                if let Ok(mut other) = replica.try_clone() {
                    learn(&mut other, order);
                    learn(&mut other, &noted);
                    fresh.push(other);
                }
            }
            learn(replica, &noted);
        }
        if !fresh.is_empty() {
            self.alternatives.append(&mut fresh);
            self.thin_out();
        }
    }

    /// Grows an area down to `start`, as a fault has. Returns `false` if the engine finds that impossible.
    pub fn grow_stack(&mut self, start: u64) -> bool {
        let mut fresh: Vec<Replica> = self
            .replicas()
            .filter_map(|replica| replica.written_below(start))
            .collect();
        self.alternatives
            .retain_mut(|other| other.grow_as_seen(start));
        let grown = self.replica.grow_as_seen(start);
        if !fresh.is_empty() {
            self.alternatives.append(&mut fresh);
            self.thin_out();
        }
        grown
    }

    /// Notes that another thread's fault has grown the area down to `start` during the next call: before
    /// the kernel's part of it, or after.
    pub fn may_have_grown(&mut self, start: u64) {
        self.meanwhile.push(start);
    }

    /// Notes a set of nodes that the kernel may have read in the next call, because another thread changed
    /// the argument.
    pub fn may_have_named(&mut self, nodes: u64) {
        self.named.push(nodes);
    }

    /// Performs a call as the kernel did, where the engine may have answered otherwise for want of
    /// knowledge. Judges nothing.
    pub fn adopt(&mut self, call: &Call, returned: i64) {
        if (-4095..0).contains(&returned) {
            return;
        }
        self.doubts.follow(call, returned);
        for replica in self.replicas() {
            // What it cannot do, it cannot follow: later calls on that will not be compared either.
            let _ = replica
                .engine
                .perform_at(call, returned as u64, &mut NoPages);
        }
    }

    /// Performs a write fault at `address`.
    pub fn touch(&mut self, address: u64) {
        for replica in self.replicas() {
            // Where the engine finds that impossible, the maps will differ.
            let _ = replica.engine.fault(address, true);
        }
    }

    /// Poisons pages, as a userfaultfd has.
    pub fn poison(&mut self, start: u64, end: u64) {
        for replica in self.replicas() {
            // Where the engine finds that impossible, later calls will differ.
            let _ = replica.engine.poison(start, end);
        }
    }

    /// Notes that a userfaultfd has brought pages where guards or poison were.
    pub fn note_brought(&mut self, start: u64, end: u64) {
        for replica in self.replicas() {
            let _ = replica.engine.note_brought(start, end);
        }
    }

    /// Sets the resource limits.
    pub fn set_limits(&mut self, limits: Limits) {
        for replica in self.replicas() {
            replica.engine.set_limits(limits);
        }
    }

    /// Sets the addresses at which placement begins.
    pub fn set_bases(&mut self, mmap_base: u64, legacy_base: u64) {
        for replica in self.replicas() {
            replica.engine.set_bases(mmap_base, legacy_base);
        }
    }

    /// Sets the configuration.
    pub fn set_config(&mut self, config: &Config) {
        for replica in self.replicas() {
            replica.engine.set_config(config.clone());
        }
    }

    /// Returns `true` if the kernel's map should be compared soon, because many hypotheses are followed.
    pub fn is_undecided(&self) -> bool {
        self.alternatives.len() > UNDECIDED
    }

    /// Performs a call and judges the answer against what the kernel returned, without counting. `facts`
    /// tells the evidence, and perhaps more.
    pub fn perform(
        &mut self,
        call: &Call,
        returned: i64,
        evidence: Evidence<'_>,
        facts: &mut dyn Pages,
    ) -> (Verdict, i64) {
        let before = evidence.before;
        self.doubts.follow(call, returned);
        let left = untried(before, evidence.after);
        if !left.is_empty() {
            self.given_up += 1;
            self.doubts.note(left);
        }
        let mut fresh: Vec<Replica> = Vec::new();
        let ends = self.ends(call, returned);
        if !ends.is_empty() {
            fresh = self.performed_to_an_end(call, returned, evidence, facts, &ends);
            if !fresh.is_empty() && !self.needs_no_end(call, returned, facts) {
                self.meanwhile.clear();
                self.named.clear();
                self.go_on_with(fresh);
                return (Verdict::Outside, returned);
            }
        }
        fresh.append(&mut self.under_other_orders(call, returned, evidence));
        let mut refused_by_driver = if returned < 0 && maps_device_over_others(call) {
            self.copies()
        } else {
            Vec::new()
        };
        let (mut verdict, mut own) = self.replica.perform(call, returned, facts);
        if verdict == Verdict::Agrees {
            // The driver may have refused with the same error, before the kernel came to the reason for
            // which the engine refuses, and splits areas.
            fresh.append(&mut refused_by_driver);
        }
        if let (Verdict::Outside, Some(replaced)) = (verdict, replaced_by(call)) {
            fresh.append(&mut self.refused_half_way(call, &replaced, before));
        }
        if self.alternatives.is_empty() && fresh.is_empty() {
            return (verdict, own);
        }

        let old = self.perform_alternatives(call, returned, before);
        let branched = !fresh.is_empty();
        self.alternatives.append(&mut fresh);
        if !explains(verdict) && !self.alternatives.is_empty() {
            self.replica = self.alternatives.remove(0);
            self.replaced += 1;
            (verdict, own) = (Verdict::Agrees, returned);
        }
        self.give_up(&old);
        if branched || self.alternatives.iter().any(|other| other.age % 16 == 0) {
            self.thin_out();
        }
        (verdict, own)
    }

    /// Returns the replicas that explain the result if the program wrote in another order, or if areas had
    /// grown, or nodes or a file were others. Each assumption about earlier calls is combined with each one
    /// about this call.
    fn under_other_orders(
        &mut self,
        call: &Call,
        returned: i64,
        evidence: Evidence<'_>,
    ) -> Vec<Replica> {
        let before = evidence.before;
        let mut fresh = Vec::new();
        let orders = orderings(before, evidence.after);
        let meanwhile = std::mem::take(&mut self.meanwhile);
        let named = std::mem::take(&mut self.named);
        for replica in self.replicas() {
            for order in &orders {
                if let Ok(mut other) = replica.try_clone() {
                    learn(&mut other, order);
                    if explains(other.perform(call, returned, &mut NoPages).0) {
                        fresh.push(other);
                    }
                }
            }
            if !meanwhile.is_empty()
                && let Ok(mut other) = replica.try_clone()
                && grow(&mut other, &meanwhile)
                && explains(other.perform(call, returned, &mut Listed(before)).0)
            {
                fresh.push(other);
            }
            let through = replica.through_an_unknown_file(call, returned);
            let named = named.iter().filter_map(|nodes| naming(call, *nodes));
            for call in named.chain(through) {
                if let Ok(mut other) = replica.try_clone()
                    && explains(other.perform(&call, returned, &mut Listed(before)).0)
                {
                    fresh.push(other);
                }
            }
        }
        fresh
    }

    /// Returns a copy of each replica.
    fn copies(&mut self) -> Vec<Replica> {
        self.replicas()
            .filter_map(|replica| replica.try_clone().ok())
            .collect()
    }

    /// Returns the replicas after a call that the kernel refused half-way: it had taken pages away, and the
    /// area keeps its owner of private pages.
    fn refused_half_way(&mut self, call: &Call, replaced: &Call, before: &[Range]) -> Vec<Replica> {
        let mut fresh = Vec::new();
        for replica in self.replicas() {
            learn(replica, before);
        }
        for replica in self.replicas() {
            let mut ways = halves(call, &replica.engine);
            ways.push(vec![replaced.clone()]);
            for way in ways {
                if let Ok(mut other) = replica.try_clone()
                    && way.iter().all(|call| other.engine.perform(call).is_ok())
                {
                    fresh.push(other);
                }
            }
        }
        fresh
    }

    /// Performs the call on the alternatives, and keeps those that explain the result. Returns those that
    /// would have explained it, but are too old.
    fn perform_alternatives(
        &mut self,
        call: &Call,
        returned: i64,
        before: &[Range],
    ) -> Vec<Replica> {
        let mut kept = Vec::with_capacity(self.alternatives.len());
        let mut old = Vec::new();
        for mut other in self.alternatives.drain(..) {
            let (verdict, _) = if before.is_empty() {
                other.perform(call, returned, &mut NoPages)
            } else {
                other.perform(call, returned, &mut Listed(before))
            };
            self.performed += 1;
            other.age += 1;
            if !explains(verdict) {
                continue;
            }
            if other.age < PATIENCE {
                kept.push(other);
            } else {
                old.push(other);
            }
        }
        self.alternatives = kept;
        old
    }

    /// Of those that will always answer alike, one is enough. Of too many different ones, the oldest are given up.
    fn thin_out(&mut self) {
        let mut kept: Vec<Replica> = Vec::with_capacity(self.alternatives.len());
        // From the youngest on: it has the most patience left.
        for other in self.alternatives.drain(..).rev() {
            if !other.same_as(&self.replica) && !kept.iter().any(|known| known.same_as(&other)) {
                kept.push(other);
            }
        }
        let more = kept.split_off(kept.len().min(ALTERNATIVES));
        self.give_up(&more);
        kept.reverse();
        self.alternatives = kept;
    }

    /// Follows these no longer, but remembers where they told otherwise.
    fn give_up(&mut self, others: &[Replica]) {
        self.given_up += others.len() as u64;
        for other in others {
            self.doubts.note(&self.replica.apart_from(other));
        }
    }

    /// Notes that pages of `start..end` may have been about to be written during a call, since they showed
    /// after its return. Only the map can tell.
    pub fn doubt(&mut self, start: u64, end: u64) {
        self.doubts.note(&[(start, end)]);
    }
}

#[cfg(test)]
mod tests;
