//! The map of one engine, compared with the kernel's and with another engine's.

use std::collections::HashMap;

use samara_linux::maps::Map;
use samara_mm::{AnonVma, Area, Layout, Limits, MapsLine, VmFlags};

use crate::compare::{self, Difference};
use crate::orderings::Range;

use super::Replica;

impl Replica {
    /// Compares the whole map, growing stacks that the kernel has grown. `grown` gets the lowest addresses that areas grew to, `fresh` what this would be
    /// if [what is below had been written before](Self::written_below).
    pub(crate) fn compare(
        &mut self,
        kernel: &Map,
        grown: &mut Vec<u64>,
        fresh: &mut Vec<Replica>,
        renamed: &mut u64,
    ) -> Result<(), Difference> {
        loop {
            let alike = &mut self.alike;
            // The view must be gone before growth, which would wait for it.
            let compared = match &self.shared {
                Some(shared) => {
                    let view = shared.read();
                    let layout = self.engine.shown_layout();
                    compare::compare(view.maps(layout), kernel, alike, renamed)
                }
                None => compare::compare(self.engine.maps(), kernel, alike, renamed),
            };
            match compared {
                Ok(()) => {
                    self.owners.confirm(&self.engine);
                    return Ok(());
                }
                Err(difference) => match difference.growth {
                    // A fault grew the area since the last look, if the engine finds that possible.
                    Some(start) => {
                        let mut possible = false;
                        for other in self.grown(kernel) {
                            let written = self.written_below(other);
                            if self.grow_as_seen(other) {
                                fresh.extend(written);
                                grown.push(other);
                                possible |= other == start;
                            }
                        }
                        if !possible {
                            return Err(difference);
                        }
                    }
                    None => return Err(difference),
                },
            }
        }
    }

    /// Compares the areas of `[start, end)` alone, which `kernel` has. Nothing grows.
    pub(crate) fn agrees_within(
        &mut self,
        (start, end): Range,
        kernel: &Map,
        renamed: &mut u64,
    ) -> bool {
        let layout = self.engine.shown_layout();
        let alike = &mut self.alike;
        let compared = match &self.shared {
            Some(shared) => {
                let view = shared.read();
                let find = |from| view.find_intersection(from, end);
                compare::compare(lines(start, layout, find), kernel, alike, renamed)
            }
            None => {
                let find = |from| self.engine.find_intersection(from, end);
                compare::compare(lines(start, layout, find), kernel, alike, renamed)
            }
        };
        if compared.is_ok() {
            self.owners.confirm(&self.engine);
        }
        compared.is_ok()
    }

    /// Returns both maps where they differ.
    pub(crate) fn side_by_side(&self, kernel: &Map, difference: &Difference) -> String {
        compare::side_by_side(&self.engine, kernel, &self.alike, difference)
    }

    /// Returns the starts of areas that the kernel has grown, the highest first. An area that ends
    /// where the one above has grown to may have found its owner there.
    /// [`written_below`](Self::written_below) is the other case: it had an owner before.
    fn grown(&self, kernel: &Map) -> Vec<u64> {
        let grows = |area: &Area<'_>| area.vma.flags.contains(VmFlags::GROWSDOWN);
        let start = |area: Area<'_>| {
            let other = kernel.at(area.start)?;
            (other.end == area.end && other.start < area.start).then_some(other.start)
        };
        let mut starts: Vec<u64> = self
            .engine
            .areas()
            .filter(grows)
            .filter_map(start)
            .collect();
        starts.reverse();
        starts
    }

    /// Returns this replica after a fault has grown an area down to `start`, where another area
    /// ends that was written before. Then the other area has not taken its owner from the grown
    /// one. Returns `None` if that is impossible, or has no effect.
    pub(crate) fn written_below(&self, start: u64) -> Option<Self> {
        let below = self.engine.lookup(start.checked_sub(1)?)?;
        let writable = below.vma.flags & (VmFlags::WRITE | VmFlags::SHARED) == VmFlags::WRITE;
        if below.end != start || !writable || below.vma.anon().is_some() {
            return None;
        }
        let mut other = self.try_clone().ok()?;
        other.engine.note_written(below.start, below.end);
        other.grow_as_seen(start).then_some(other)
    }

    /// Grows an area down to `start`, as the kernel's has been seen to. Where the limits are in the way, another process has written there: those of who writes
    /// count (observed). False if something else is in the way.
    pub(crate) fn grow_as_seen(&mut self, start: u64) -> bool {
        if self.engine.grow_stack(start).is_ok() {
            return true;
        }
        let limits = self.engine.limits();
        self.engine.set_limits(Limits::UNLIMITED);
        let grown = self.engine.grow_stack(start).is_ok();
        self.engine.set_limits(limits);
        grown
    }

    /// Returns `true` if the two will always have the same results: their areas differ in nothing
    /// but the numbers of the anon_vmas.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        let mut pairs = Pairs::default();
        self.engine.area_count() == other.engine.area_count()
            && self
                .engine
                .areas()
                .zip(other.engine.areas())
                .all(|(a, b)| pairs.alike(&a, &b))
    }

    /// Returns the ranges in which the areas of the two differ. Of two areas with one owner here
    /// and two there, it is the upper one.
    pub(crate) fn apart_from(&self, other: &Self) -> Vec<Range> {
        let mut pairs = Pairs::default();
        let mut found = Vec::new();
        let mut others = other.engine.areas().peekable();
        for area in self.engine.areas() {
            while others.next_if(|other| other.end <= area.start).is_some() {}
            let same = others.peek().is_some_and(|other| pairs.alike(&area, other));
            if !same {
                found.push((area.start, area.end));
            }
        }
        let nothing_here = |other: &Area<'_>| self.engine.lookup(other.start).is_none();
        let only_there = other.engine.areas().filter(nothing_here);
        found.extend(only_there.map(|area| (area.start, area.end)));
        found
    }
}

/// Returns the lines of the areas that `find` finds, one from the end of the other on.
fn lines<'a>(
    start: u64,
    layout: Layout,
    mut find: impl FnMut(u64) -> Option<Area<'a>>,
) -> impl Iterator<Item = MapsLine<'a>> {
    let mut next = start;
    std::iter::from_fn(move || {
        let area = find(next)?;
        next = area.end;
        Some(MapsLine::of(area, &layout))
    })
}

/// Which owner of private pages is which of another engine's.
#[derive(Default)]
struct Pairs(HashMap<AnonVma, AnonVma>, HashMap<AnonVma, AnonVma>);

impl Pairs {
    fn alike(&mut self, a: &Area<'_>, b: &Area<'_>) -> bool {
        let owners = match (a.vma.anon(), b.vma.anon()) {
            (None, None) => true,
            (Some(x), Some(y)) => {
                *self.0.entry(x).or_insert(y) == y
                    && *self.1.entry(y).or_insert(x) == x
                    && x.is_inherited() == y.is_inherited()
            }
            _ => false,
        };
        owners
            && (a.start, a.end) == (b.start, b.end)
            && (a.vma.flags, a.vma.shift, a.vma.policy) == (b.vma.flags, b.vma.shift, b.vma.policy)
            && a.vma.name == b.vma.name
    }
}
