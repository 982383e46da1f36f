//! The model: flags and node of each of a few units of the address space, without any structure.

use crate::{Flags, Kind, NodeId, Region};

/// The flags and node of a unit in one array, if it is in it.
pub(crate) type Cell = Option<(Flags, NodeId)>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Model {
    pub(crate) memory: Vec<Cell>,
    pub(crate) reserved: Vec<Cell>,
    pub(crate) base: u64,
    pub(crate) unit: u64,
}

/// A call on units `from..to`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Call {
    pub(crate) what: What,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum What {
    Add(Kind, Flags, NodeId),
    Remove(Kind),
    SetNode(Kind, NodeId),
    Mark(Kind, Flags, bool),
}

impl What {
    pub(crate) fn kind(self) -> Kind {
        match self {
            What::Add(kind, ..)
            | What::Remove(kind)
            | What::SetNode(kind, _)
            | What::Mark(kind, ..) => kind,
        }
    }
}

impl Model {
    pub(crate) fn new(base: u64, unit: u64, n: usize) -> Self {
        Model {
            memory: vec![None; n],
            reserved: vec![None; n],
            base,
            unit,
        }
    }

    pub(crate) fn cells(&mut self, kind: Kind) -> &mut Vec<Cell> {
        match kind {
            Kind::Memory => &mut self.memory,
            Kind::Reserved => &mut self.reserved,
            Kind::Physmem => unreachable!(),
        }
    }

    pub(crate) fn apply(&mut self, call: Call) {
        for cell in &mut self.cells(call.what.kind())[call.from..call.to] {
            match (call.what, &mut *cell) {
                (What::Add(_, flags, nid), None) => *cell = Some((flags, nid)),
                (What::Remove(_), _) => *cell = None,
                (What::SetNode(_, nid), Some(c)) => c.1 = nid,
                (What::Mark(_, flag, on), Some(c)) => c.0.set(flag, on),
                _ => {}
            }
        }
    }

    /// Returns the regions that an array must have: runs of units with equal attributes.
    pub(crate) fn runs(&self, kind: Kind) -> Vec<Region> {
        let cells = if kind == Kind::Memory {
            &self.memory
        } else {
            &self.reserved
        };
        let mut runs: Vec<Region> = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            let Some((flags, nid)) = *cell else { continue };
            let base = self.base + i as u64 * self.unit;
            match runs.last_mut() {
                Some(r) if r.end() == base && r.attributes() == (flags, nid) => r.size += self.unit,
                _ => runs.push(Region {
                    base,
                    size: self.unit,
                    flags,
                    nid,
                }),
            }
        }
        runs
    }

    /// Returns the number of regions that an addition inserts before any merge.
    pub(crate) fn holes(&self, call: Call) -> usize {
        let cells = if call.what.kind() == Kind::Memory {
            &self.memory
        } else {
            &self.reserved
        };
        (call.from..call.to)
            .filter(|&i| cells[i].is_none() && (i == call.from || cells[i - 1].is_some()))
            .count()
    }

    /// Returns the address at which an allocation of `size` must be found in `start..end`, by
    /// trying every multiple of `align`.
    pub(crate) fn find(
        &self,
        size: u64,
        align: u64,
        start: u64,
        end: u64,
        top_down: bool,
        filter: &crate::Filter,
    ) -> Option<u64> {
        let mut free: Vec<Region> = Vec::new();
        for (i, cell) in self.memory.iter().enumerate() {
            let Some((flags, nid)) = *cell else { continue };
            let unit = Region {
                base: self.base + i as u64 * self.unit,
                size: self.unit,
                flags,
                nid,
            };
            if self.reserved[i].is_some() || filter.skips(&unit) {
                continue;
            }
            match free.last_mut() {
                Some(r) if r.end() == unit.base && r.attributes() == unit.attributes() => {
                    r.size += self.unit
                }
                _ => free.push(unit),
            }
        }
        let start = start.max(crate::PAGE_SIZE);
        let fits = |at: &u64| {
            *at >= start
                && at + size <= end
                && free.iter().any(|r| r.base <= *at && at + size <= r.end())
        };
        let last = self.base + self.memory.len() as u64 * self.unit;
        let mut places = (0..=last / align).map(|i| i * align);
        if top_down {
            places.rev().find(fits)
        } else {
            places.find(fits)
        }
    }
}
