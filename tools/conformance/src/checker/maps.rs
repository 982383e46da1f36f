//! The engine's map compared with the kernel's, under every hypothesis.

use samara_linux::maps::Map;

use crate::checker::{Checker, Place, unknown};
use crate::compare::{self, Difference};
use crate::orderings::Range;
use crate::replica::Replica;
use crate::tally::{Finding, FindingKind};
use crate::undecided::Unknown;

impl Checker {
    /// Returns `true` if the maps differ only in where areas are joined, under every hypothesis.
    pub fn is_joined_otherwise(&self, kernel: &Map) -> bool {
        let mut replicas = std::iter::once(&self.replica).chain(&self.alternatives);
        replicas.all(|replica| {
            compare::joints(replica.engine.maps(), kernel, &|_| false)
                .is_some_and(|joints| !joints.is_empty())
        })
    }

    /// Returns why a map that differs decides nothing: areas are joined in one of the two maps and not in the other, or have other names, and of each of them
    /// something is not known. `None` if it is a disagreement.
    pub fn undecided(&self, kernel: &Map) -> Option<Unknown> {
        let engine = &self.replica.engine;
        let mut whys = |range: Range| {
            let of_files = unknown::of_files(engine, range);
            let served = of_files.filter(|why| *why == Unknown::Served);
            served.or_else(|| self.doubts.of(range).next()).or(of_files)
        };
        let unnamed = |range| self.doubts.of(range).any(|why| why == Unknown::Argument);
        let joints = compare::joints(engine.maps(), kernel, &unnamed)?;
        let found: Option<Vec<Unknown>> = joints.into_iter().map(&mut whys).collect();
        found?.first().copied()
    }

    /// Returns `range` as far as whole areas reach that lie in it or touch it, and how many there are, counted up to one more than `most`.
    pub fn window(&self, (start, end): Range, most: usize) -> (Range, usize) {
        let engine = &self.replica.engine;
        let below = start.checked_sub(1).and_then(|below| engine.lookup(below));
        let low = below.map_or(start, |area| area.start);
        let high = engine.lookup(end).map_or(end, |area| area.end);
        let areas = unknown::areas(engine, (low, high)).take(most + 1).count();
        ((low, high), areas)
    }

    /// Compares the areas of a [window](Self::window) alone: `kernel` has these. Returns `false` if they differ; what else is followed is refuted where it differs.
    pub fn agrees_within(&mut self, window: Range, kernel: &Map, renamed: &mut u64) -> bool {
        if !self.replica.agrees_within(window, kernel, renamed) {
            return false;
        }
        // Names are counted once.
        let mut names = 0;
        self.alternatives
            .retain_mut(|other| other.agrees_within(window, kernel, &mut names));
        true
    }

    /// Compares the whole map, and grows stacks that the kernel has grown. `grown` gets the lowest addresses
    /// that areas grew to.
    ///
    /// # Errors
    /// The first difference, if every hypothesis has one.
    pub fn compare(
        &mut self,
        kernel: &Map,
        grown: &mut Vec<u64>,
        renamed: &mut u64,
    ) -> Result<(), Difference> {
        let known = grown.len();
        let mut fresh = Vec::new();
        let compared = self.replica.compare(kernel, grown, &mut fresh, renamed);
        if self.alternatives.is_empty() && fresh.is_empty() {
            return compared.or_else(|difference| self.learn(kernel, &[], difference));
        }
        // What the others grow they would have grown anyway; names are counted once.
        let (mut again, mut names) = (Vec::new(), 0);
        let mut refuted = Vec::new();
        for mut other in std::mem::take(&mut self.alternatives) {
            match other.compare(kernel, &mut again, &mut fresh, &mut names) {
                Ok(()) => self.alternatives.push(other),
                Err(_) => refuted.push(other),
            }
        }
        // One that comes of one of these is not followed.
        let mut more = Vec::new();
        fresh.retain_mut(|other| {
            other
                .compare(kernel, &mut again, &mut more, &mut names)
                .is_ok()
        });
        if !fresh.is_empty() {
            self.alternatives.append(&mut fresh);
            self.thin_out();
        }
        match compared {
            Err(_) if !self.alternatives.is_empty() => {
                self.replica = self.alternatives.remove(0);
                self.replaced += 1;
                if grown.len() == known {
                    again.sort_unstable();
                    again.dedup();
                    grown.extend(again);
                }
                Ok(())
            }
            Err(difference) => self.learn(kernel, &refuted, difference),
            Ok(()) => Ok(()),
        }
    }

    /// Goes on with what explains a map that differs under every assumption about page faults: that owners of which nothing was known are one.
    fn learn(
        &mut self,
        kernel: &Map,
        refuted: &[Replica],
        difference: Difference,
    ) -> Result<(), Difference> {
        let replicas = std::iter::once(&self.replica).chain(refuted);
        let unknown = &|range| self.doubts.touch(range);
        let explains = |other: &mut Replica| {
            let (mut grown, mut fresh) = (Vec::new(), Vec::new());
            let compared = other.compare(kernel, &mut grown, &mut fresh, &mut 0);
            compared.is_ok() && grown.is_empty()
        };
        let mut learnt = replicas
            .filter_map(|replica| replica.with_owners_of(kernel, unknown))
            .filter_map(|mut other| explains(&mut other).then_some(other));
        let Some(replica) = learnt.next() else {
            return Err(difference);
        };
        let others = learnt.collect();
        self.replica = replica;
        self.alternatives = others;
        self.replaced += 1;
        self.thin_out();
        Ok(())
    }

    /// Returns the finding for a map that differs.
    pub fn map_finding(
        &self,
        kernel: &Map,
        difference: &Difference,
        place: Place,
        cause: String,
    ) -> Finding {
        Finding {
            kind: FindingKind::Map,
            call_number: place.call_number,
            process: place.process,
            call: cause,
            detail: self.replica.side_by_side(kernel, difference),
        }
    }
}
