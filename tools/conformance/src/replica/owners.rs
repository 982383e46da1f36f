//! Conclusions from the kernel's map about inferred owners.
//!
//! Of a process that was attached to, or that was taken anew from the kernel, it is known which areas have private pages, but not which of them have one owner. The
//! engine keeps such areas apart; the kernel joins those with one owner. That is learnt here, from the map that is compared and from nothing else, so
//! that a replay learns the same.

use std::collections::HashSet;

use samara_linux::maps::Map;
use samara_mm::{AddressSpace, AnonVma, Area, Call, Obstacles, VmFlags};

use crate::compare;
use crate::orderings::Range;

use super::Replica;

/// The most neighbours of a call that are examined. Of more, nothing is known.
const LOOKED_AT: usize = 256;
/// The most pairs that are kept.
const KEPT: usize = 4096;
/// Of what was mapped, and has joined, since the maps were compared, the last.
const LAID: usize = 64;

/// Of which memory owners are unknown.
pub(crate) type Unknown<'a> = &'a dyn Fn(Range) -> bool;

/// Two owners, the smaller number first.
type Pair = (AnonVma, AnonVma);

/// Two adjacent areas in the range of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Meeting {
    start: u64,
    at: u64,
    end: u64,
    owners: [Option<AnonVma>; 2],
    charged: [bool; 2],
    /// Only owners keep them apart.
    apart: Option<Pair>,
}

/// The known facts about inferred owners.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    /// They are two: the kernel kept apart what it would have joined.
    two: HashSet<Pair>,
    /// So it did by the engine; the map that comes next tells.
    perhaps_two: Vec<Pair>,
    /// Not shared with a parent: new memory joined their areas.
    own: HashSet<AnonVma>,
    /// So it did by the engine; the map that comes next tells. And which memory.
    laid: Vec<Range>,
    /// Areas that have merged in the engine since the maps were compared, although one of the two
    /// may have an owner that no page shows.
    joined: Vec<Meeting>,
}

impl Owners {
    /// The map agrees: what the engine did, the kernel did.
    pub(super) fn confirm(&mut self, engine: &AddressSpace) {
        self.joined.clear();
        self.two.extend(self.perhaps_two.drain(..));
        let beside = self.laid.drain(..).filter_map(|(start, end)| {
            let area = engine.lookup(start)?;
            let joined = area.start < start || area.end > end;
            area.vma.anon().filter(|_| joined)
        });
        self.own.extend(beside.filter(|owner| owner.is_inferred()));
    }

    /// Notes what a call has brought about.
    fn note(
        &mut self,
        perhaps_two: impl Iterator<Item = Pair>,
        joined: impl Iterator<Item = Meeting>,
        laid: Option<Range>,
    ) {
        let room = KEPT.saturating_sub(self.two.len() + self.perhaps_two.len());
        self.perhaps_two.extend(perhaps_two.take(room));
        self.joined.extend(joined);
        let more = self.joined.len().saturating_sub(LAID);
        self.joined.drain(..more);
        self.laid.extend(laid);
        let more = self.laid.len().saturating_sub(LAID);
        self.laid.drain(..more);
    }

    /// Returns the known facts, without those that the next map would add.
    pub(super) fn settled(&self) -> Self {
        Self {
            two: self.two.clone(),
            own: self.own.clone(),
            ..Self::default()
        }
    }

    /// Returns the pairs under other names.
    fn rename(&mut self, name: impl Fn(AnonVma) -> AnonVma) {
        let named = |(a, b): Pair| pair(name(a), name(b));
        self.two = self.two.drain().map(named).collect();
        self.perhaps_two = self.perhaps_two.drain(..).map(named).collect();
        self.perhaps_two.retain(|(a, b)| a != b);
        self.own = self.own.drain().map(name).collect();
    }
}

fn pair(a: AnonVma, b: AnonVma) -> Pair {
    if a.number() <= b.number() {
        (a, b)
    } else {
        (b, a)
    }
}

/// Returns the owners of two areas that only these keep apart, one of them made up.
fn kept_apart(lower: &Area<'_>, upper: &Area<'_>) -> Option<Pair> {
    let (a, b) = (lower.vma.anon()?, upper.vma.anon()?);
    let assumed = a.is_inferred() || b.is_inferred();
    (assumed && a != b && lower.obstacles(upper) == Obstacles::OWNER).then(|| pair(a, b))
}

impl Replica {
    /// Returns the pairs of adjacent areas in the range of the call.
    pub(super) fn meetings(&self, call: &Call, returned: i64) -> Vec<Meeting> {
        let mut found = Vec::new();
        for (start, end) in concerned(call, returned) {
            let mut lower = self.engine.find_intersection(start.saturating_sub(1), end);
            for _ in 0..LOOKED_AT {
                let Some(below) = lower.take().filter(|area| area.end <= end) else {
                    break;
                };
                if let Some(upper) = self.engine.lookup(below.end) {
                    let both = [&below, &upper];
                    found.push(Meeting {
                        start: below.start,
                        at: below.end,
                        end: upper.end,
                        owners: both.map(|area| area.vma.anon()),
                        charged: both.map(|area| area.vma.flags.contains(VmFlags::ACCOUNT)),
                        apart: kept_apart(&below, &upper),
                    });
                }
                lower = self.engine.find_intersection(below.end, end);
            }
        }
        found
    }

    /// Notes the owners after a call, before which these areas were adjacent. If only owners keep
    /// them apart now, the kernel would have merged them if the owners were one. If they have
    /// merged, the kernel would have kept them apart if one had an owner that no page shows. The
    /// next map of the kernel decides which is true.
    pub(super) fn note_owners(
        &mut self,
        (before, brk): (&[Meeting], u64),
        call: &Call,
        returned: i64,
    ) {
        let done = !(-4095..0).contains(&returned);
        let laid = done.then(|| laid(call, returned, brk)).flatten();
        let known = |now: &Meeting| {
            let same = |other: &&Meeting| (other.at, other.apart) == (now.at, now.apart);
            before.iter().any(|other| same(&other))
        };
        let now = self.meetings(call, returned);
        let apart: Vec<Pair> = now
            .iter()
            .filter(|now| !known(now))
            .filter_map(|now| now.apart)
            .collect();
        let is_one = |meeting: &&Meeting| {
            let area = self.engine.lookup(meeting.at);
            meeting.owners.contains(&None) && area.is_some_and(|area| area.start < meeting.at)
        };
        let joined: Vec<Meeting> = before.iter().filter(is_one).copied().collect();
        self.owners
            .note(apart.into_iter(), joined.into_iter(), laid);
    }

    /// Returns this replica with inferred owners made one, wherever that explains why several areas
    /// here are one in the kernel's map. Or with owners shared with a parent, wherever that
    /// explains why a new mapping is an area of its own. Returns `None` if this explains nothing,
    /// or if the opposite has been proved or is known.
    pub(crate) fn with_owners_of(&self, kernel: &Map, unknown: Unknown<'_>) -> Option<Self> {
        if !self.assumes {
            return None;
        }
        let joints = compare::joints(self.engine.maps(), kernel, &|_| false)?;
        let mut other = self.try_clone().ok()?;
        let mut learnt = false;
        for (start, end) in joints {
            let shown = kernel.at(start)?;
            if (shown.start, shown.end) == (start, end) {
                learnt |= other.learn_one_area((start, end), unknown)?;
                continue;
            }
            for &(from, to) in &self.owners.laid {
                if (start..end).contains(&from)
                    && let Some(own) = kernel.at(from).filter(|own| own.end >= to)
                {
                    learnt |= other.learn_own_area((own.start, own.end), unknown)?;
                }
            }
            for meeting in self.owners.joined.iter().rev() {
                if start < meeting.at && meeting.at < end {
                    learnt |= other.learn_owned(meeting, kernel, unknown)?;
                }
            }
        }
        learnt.then_some(other)
    }

    /// Makes one area of several. `None` if the owners have proved to be two.
    fn learn_one_area(&mut self, (start, end): Range, unknown: Unknown<'_>) -> Option<bool> {
        let known = |area: &Area<'_>| {
            let owner = area.vma.anon();
            owner.is_some_and(|owner| !owner.is_inferred()) && !unknown((area.start, area.end))
        };
        let of = |area: &Area<'_>| start <= area.start && area.end <= end;
        if self.engine.areas().any(|area| of(&area) && known(&area)) {
            return None;
        }
        let within = |engine: &AddressSpace| -> Vec<AnonVma> {
            let areas = engine.areas().skip_while(|area| area.start < start);
            let areas = areas.take_while(|area| area.end <= end);
            let mut owners: Vec<AnonVma> = areas.filter_map(|area| area.vma.anon()).collect();
            owners.dedup();
            owners
        };
        let owners = within(&self.engine);
        let two = owners
            .iter()
            .flat_map(|a| owners.iter().map(move |b| pair(*a, *b)))
            .any(|pair| self.owners.two.contains(&pair));
        if two || !self.engine.note_one_area(start, end).ok()? {
            return (!two).then_some(false);
        }
        let one = within(&self.engine).first().copied()?;
        self.owners
            .rename(|owner| if owners.contains(&owner) { one } else { owner });
        Some(true)
    }

    /// Corrects areas that have merged here and are two in the kernel's map: the one that seemed to
    /// have no owner has one, or, where no thread can have written, the other one came from a
    /// parent.
    fn learn_owned(
        &mut self,
        meeting: &Meeting,
        kernel: &Map,
        unknown: Unknown<'_>,
    ) -> Option<bool> {
        let mut learnt = false;
        let parts = [(meeting.start, meeting.at), (meeting.at, meeting.end)];
        for (index, part) in parts.into_iter().enumerate() {
            let shown = kernel.at(if index == 0 { part.1 - 1 } else { part.0 })?;
            let is_cut = shown.end == meeting.at || shown.start == meeting.at;
            if !is_cut || meeting.owners[index].is_some() {
                continue;
            }
            let range = (shown.start, shown.end);
            learnt |= if unknown(part) {
                let charged = meeting.charged[index];
                self.engine
                    .note_owned_area(range.0, range.1, charged)
                    .ok()?
            } else {
                self.learn_own_area(range, unknown)?
            };
        }
        let owner = |at: u64| self.engine.lookup(at)?.vma.anon();
        if learnt && let (Some(a), Some(b)) = (owner(meeting.at - 1), owner(meeting.at)) {
            self.owners.two.insert(pair(a, b));
        }
        Some(learnt)
    }

    /// Splits off a new mapping. Returns `None` if its neighbour has been proved not to be a
    /// parent's.
    fn learn_own_area(&mut self, (start, end): Range, unknown: Unknown<'_>) -> Option<bool> {
        let area = self.engine.lookup(start)?;
        let owner = area.vma.anon();
        if !unknown((area.start, area.end)) {
            return Some(false);
        }
        if owner.is_some_and(|owner| self.owners.own.contains(&owner)) {
            return None;
        }
        let learnt = self.engine.note_own_area(start, end).ok()?;
        let beside = [start.saturating_sub(1), end];
        let mut beside = beside
            .iter()
            .filter_map(|at| self.engine.lookup(*at)?.vma.anon());
        if learnt
            && let Some(owner) = owner
            && let Some(inherited) = beside.find(|other| other.number() == owner.number())
        {
            self.owners
                .rename(|known| if known == owner { inherited } else { known });
        }
        Some(learnt)
    }
}

/// Returns the range that a call has mapped and that has not been written yet.
fn laid(call: &Call, returned: i64, brk: u64) -> Option<Range> {
    let page = |address: u64| address.checked_next_multiple_of(0x1000);
    match *call {
        Call::Mmap { len, .. } => {
            let start = returned as u64;
            Some((start, page(start.saturating_add(len))?))
        }
        Call::Brk { .. } => {
            let (old, new) = (page(brk)?, page(returned as u64)?);
            (old < new).then_some((old, new))
        }
        _ => None,
    }
}

/// Returns the ranges in which a call may join areas that have private pages.
fn concerned(call: &Call, returned: i64) -> impl Iterator<Item = Range> {
    let range = |addr: u64, len: u64| {
        let start = addr & !0xfff;
        let end = addr.saturating_add(len).checked_next_multiple_of(0x1000);
        (start, end.unwrap_or(u64::MAX))
    };
    let found = match *call {
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            ..
        } if !(-4095..0).contains(&returned) => [
            Some(range(old_addr, old_len)),
            Some(range(returned as u64, new_len)),
        ],
        _ => [call.range().map(|(addr, len)| range(addr, len)), None],
    };
    found.into_iter().flatten()
}
