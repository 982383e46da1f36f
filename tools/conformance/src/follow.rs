//! The engine beside one real (or recorded) address space: perform a call, judge the answer, compare the maps.
//!
//! # What cannot be known
//! Page faults between two calls are learnt afterwards, from the pages, and all at once: not in which order they came, nor, with several threads,
//! whether one came before or after the kernel's part of a call. Both can decide who shares an anon_vma, and that decides,
//! perhaps much later, who merges. Wherever it could matter, each engine that is followed goes on under each assumption (what one fault took from a
//! neighbour, the next may take from it). All perform every call, until the kernel's map refutes all but one kind. There is nothing
//! to choose from then: if none is left, that is a mismatch. Those given up undecided are counted, and what they may have explained is undecided, too
//! (`doubts`). The same holds for a fault that grows a stack
//! while a call of another thread is under way, and for a set of nodes that another thread changes while the kernel reads it. Where a file ends that is mapped
//! beyond its end is not known either (`ends`), nor what could not grow (`vain`), nor through which open file an area was mapped that was there before
//! (`reopened`).

mod doubts;
mod ends;
mod figures;
mod maps;
mod reopened;
mod unknown;
mod vain;

use samara_mm::{AddressSpace, Call, Config, Errno, Limits, NoPages, Pages, Watch};

use crate::follow::doubts::Doubts;
use crate::histories::{Range, apart, histories, orders, untried};
pub use crate::side::Verdict;
use crate::side::{Side, halves, maps_device_over_others, replaced_by};
use crate::tally::Tally;
use crate::undecided::Unknown;

/// At most so many alternatives are followed.
const ALTERNATIVES: usize = 15;
/// With more than so many the kernel's map is asked soon.
const UNDECIDED: usize = 3;
/// An alternative that nothing has refuted or preferred for so many calls is given up.
const PATIENCE: u32 = 1000;

/// The checker of one address space: the engine under the likeliest hypothesis, and those under others
/// that nothing has refuted.
#[derive(Debug)]
pub struct Follower {
    side: Side,
    /// The same under other assumptions.
    others: Vec<Side>,
    /// What was found written before a fork that comes next, in the likeliest order.
    noted: Vec<Range>,
    /// Where to areas had grown when the call that comes next returned, but not at its entry.
    meanwhile: Vec<u64>,
    /// Other sets of nodes that the kernel may have read for the call that comes next.
    named: Vec<u64>,
    /// Calls that the others have performed.
    performed: u64,
    /// Others that nothing had refuted, but that were too many or too old.
    given_up: u64,
    /// Where these had told otherwise, and where something else is not known.
    doubts: Doubts,
    /// Why a wrong answer to the call that comes next decides nothing.
    next_unknown: Option<Unknown>,
    /// How often another has taken the place of `side`.
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

fn learn(side: &mut Side, written: &[Range]) {
    for &(start, end) in written {
        side.engine.note_written(start, end);
    }
}

/// Does an assumption stand after a call that it answers so? A failure for reasons outside the address space refutes none.
fn explains(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Agrees | Verdict::Outside)
}

/// Grows areas down, as far as the engine finds it possible. False if it was possible nowhere.
fn grow(side: &mut Side, starts: &[u64]) -> bool {
    let grown = starts.iter().filter(|start| side.grow_as_seen(**start));
    grown.count() > 0
}

/// The same call with another set of nodes, if it names one.
fn naming(call: &Call, other: u64) -> Option<Call> {
    let mut call = call.clone();
    let Call::Mbind { nodes, .. } = &mut call else {
        return None;
    };
    *nodes = other;
    Some(call)
}

impl Follower {
    /// Creates the checker of a new program's address space. With `shared`, calls are performed as while
    /// other threads may read the engine's map, and maps are compared as these see them.
    pub fn new(engine: AddressSpace, shared: bool) -> Self {
        Self::with(Side::new(engine, shared))
    }

    /// Creates the checker of a process that had run before. Maps that are compared tell which areas have
    /// one owner of private pages.
    pub fn found(engine: AddressSpace, shared: bool) -> Self {
        Self::with(Side::found(engine, shared))
    }

    fn with(side: Side) -> Self {
        Self {
            side,
            others: Vec::new(),
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
        engine.take_over(&self.side.engine)?;
        self.retire(false, tally);
        let doubts = std::mem::take(&mut self.doubts);
        *self = Self::with(self.side.anew(engine));
        self.doubts = doubts;
        Ok(())
    }

    /// Returns the engine under the likeliest hypothesis.
    pub fn engine(&self) -> &AddressSpace {
        &self.side.engine
    }

    /// Returns how often another hypothesis became the likeliest: areas may differ anywhere then.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Returns the engine under the likeliest hypothesis, at the end.
    pub fn into_engine(self) -> AddressSpace {
        self.side.engine
    }

    /// Clones all hypotheses, before a call that may have to be performed again.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self {
            side: self.side.try_clone()?,
            others: self
                .others
                .iter()
                .map(Side::try_clone)
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

    fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.side).chain(&mut self.others)
    }

    /// Returns the checker of the child of a fork.
    ///
    /// # Errors
    /// Those of the engine's fork.
    pub fn fork(&mut self) -> Result<Self, Errno> {
        self.settle();
        Ok(Self {
            side: self.side.fork()?,
            others: self
                .others
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
        let mut fresh: Vec<Side> = Vec::new();
        for side in self.sides() {
            for history in &found {
                if let Ok(mut other) = side.try_clone() {
                    learn(&mut other, history);
                    learn(&mut other, &noted);
                    fresh.push(other);
                }
            }
            learn(side, &noted);
        }
        if !fresh.is_empty() {
            self.others.append(&mut fresh);
            self.thin_out();
        }
    }

    /// Grows an area down to `start`, as a fault has. Returns `false` if the engine finds that impossible.
    pub fn grow_stack(&mut self, start: u64) -> bool {
        let mut fresh: Vec<Side> = self
            .sides()
            .filter_map(|side| side.written_below(start))
            .collect();
        self.others.retain_mut(|other| other.grow_as_seen(start));
        let grown = self.side.grow_as_seen(start);
        if !fresh.is_empty() {
            self.others.append(&mut fresh);
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
        for side in self.sides() {
            // What it cannot do, it cannot follow: later calls on that will not be compared either.
            let _ = side.engine.perform_at(call, returned as u64, &mut NoPages);
        }
    }

    /// Performs a write fault at `address`.
    pub fn touch(&mut self, address: u64) {
        for side in self.sides() {
            // Where the engine finds that impossible, the maps will differ.
            let _ = side.engine.fault(address, true);
        }
    }

    /// Poisons pages, as a userfaultfd has.
    pub fn poison(&mut self, start: u64, end: u64) {
        for side in self.sides() {
            // Where the engine finds that impossible, later calls will differ.
            let _ = side.engine.poison(start, end);
        }
    }

    /// Notes that a userfaultfd has brought pages where guards or poison were.
    pub fn note_brought(&mut self, start: u64, end: u64) {
        for side in self.sides() {
            let _ = side.engine.note_brought(start, end);
        }
    }

    /// Sets the resource limits.
    pub fn set_limits(&mut self, limits: Limits) {
        for side in self.sides() {
            side.engine.set_limits(limits);
        }
    }

    /// Sets the addresses at which placement begins.
    pub fn set_bases(&mut self, mmap_base: u64, legacy_base: u64) {
        for side in self.sides() {
            side.engine.set_bases(mmap_base, legacy_base);
        }
    }

    /// Sets the configuration.
    pub fn set_config(&mut self, config: &Config) {
        for side in self.sides() {
            side.engine.set_config(config.clone());
        }
    }

    /// Returns `true` if the kernel's map should be compared soon, because many hypotheses are followed.
    pub fn is_undecided(&self) -> bool {
        self.others.len() > UNDECIDED
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
        let mut fresh: Vec<Side> = Vec::new();
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
        let histories = histories(before, evidence.after);
        let meanwhile = std::mem::take(&mut self.meanwhile);
        let named = std::mem::take(&mut self.named);
        // Each assumption about what came earlier goes with each about what came now.
        for side in self.sides() {
            for history in &histories {
                if let Ok(mut other) = side.try_clone() {
                    learn(&mut other, history);
                    if explains(other.perform(call, returned, &mut NoPages).0) {
                        fresh.push(other);
                    }
                }
            }
            if !meanwhile.is_empty()
                && let Ok(mut other) = side.try_clone()
                && grow(&mut other, &meanwhile)
                && explains(other.perform(call, returned, &mut Listed(before)).0)
            {
                fresh.push(other);
            }
            let through = side.through_an_unknown_file(call, returned);
            let named = named.iter().filter_map(|nodes| naming(call, *nodes));
            for call in named.chain(through) {
                if let Ok(mut other) = side.try_clone()
                    && explains(other.perform(&call, returned, &mut Listed(before)).0)
                {
                    fresh.push(other);
                }
            }
        }
        let mut untouched: Vec<Side> = Vec::new();
        if returned < 0 && maps_device_over_others(call) {
            untouched.extend(self.sides().filter_map(|side| side.try_clone().ok()));
        }
        let (mut verdict, mut own) = self.side.perform(call, returned, facts);
        if verdict == Verdict::Agrees {
            // The driver may have refused with the same error, before the kernel came to what the engine refuses for, and cuts areas for.
            fresh.append(&mut untouched);
        }
        if let (Verdict::Outside, Some(replaced)) = (verdict, replaced_by(call)) {
            // The kernel took pages away before it was refused; the area keeps its owner.
            for side in self.sides() {
                learn(side, before);
            }
            for side in self.sides() {
                let mut ways = halves(call, &side.engine);
                ways.push(vec![replaced.clone()]);
                for way in ways {
                    if let Ok(mut other) = side.try_clone()
                        && way.iter().all(|call| other.engine.perform(call).is_ok())
                    {
                        fresh.push(other);
                    }
                }
            }
        }
        if self.others.is_empty() && fresh.is_empty() {
            return (verdict, own);
        }

        let mut kept = Vec::with_capacity(self.others.len() + fresh.len());
        let mut old = Vec::new();
        for mut other in self.others.drain(..) {
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
        self.others = kept;
        let branched = !fresh.is_empty();
        self.others.append(&mut fresh);
        if !explains(verdict) && !self.others.is_empty() {
            self.side = self.others.remove(0);
            self.replaced += 1;
            (verdict, own) = (Verdict::Agrees, returned);
        }
        self.give_up(&old);
        if branched || self.others.iter().any(|other| other.age % 16 == 0) {
            self.thin_out();
        }
        (verdict, own)
    }

    /// Of those that will always answer alike, one is enough. Of too many different ones, the oldest are given up.
    fn thin_out(&mut self) {
        let mut kept: Vec<Side> = Vec::with_capacity(self.others.len());
        // From the youngest on: it has the most patience left.
        for other in self.others.drain(..).rev() {
            if !other.same_as(&self.side) && !kept.iter().any(|known| known.same_as(&other)) {
                kept.push(other);
            }
        }
        let more = kept.split_off(kept.len().min(ALTERNATIVES));
        self.give_up(&more);
        kept.reverse();
        self.others = kept;
    }

    /// Follows these no longer, but remembers where they told otherwise.
    fn give_up(&mut self, others: &[Side]) {
        self.given_up += others.len() as u64;
        for other in others {
            self.doubts.note(&self.side.apart_from(other));
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
