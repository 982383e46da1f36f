//! A set of areas as one writes it by hand: by their starts in a `BTreeMap`, behind a lock. Neighbours that are alike join.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use crate::{Areas, PAGE};

/// The upper bound of mappings without an address, which take the highest gap.
const TOP: u64 = 0x7fff_f7ff_f000;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Area {
    end: u64,
    write: bool,
    /// The owner of private pages, which keeps areas apart.
    owner: u32,
}

#[derive(Default)]
struct Map {
    areas: BTreeMap<u64, Area>,
    owners: u32,
}

pub(crate) struct Locked(RwLock<Map>);

impl Map {
    /// Makes `at` a boundary.
    fn split(&mut self, at: u64) {
        let Some((_, below)) = self.areas.range_mut(..at).next_back() else {
            return;
        };
        if below.end > at {
            let upper = *below;
            below.end = at;
            self.areas.insert(at, upper);
        }
    }

    fn unmap(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        while let Some((&first, _)) = self.areas.range(start..end).next() {
            self.areas.remove(&first);
        }
    }

    /// Joins the areas that meet at `at`, if they are alike.
    fn join(&mut self, at: u64) {
        let Some(&upper) = self.areas.get(&at) else {
            return;
        };
        let Some((_, lower)) = self.areas.range_mut(..at).next_back() else {
            return;
        };
        let owners = lower.owner == upper.owner || lower.owner == 0 || upper.owner == 0;
        if lower.end == at && lower.write == upper.write && owners {
            lower.end = upper.end;
            lower.owner = lower.owner.max(upper.owner);
            self.areas.remove(&at);
        }
    }

    fn put(&mut self, start: u64, end: u64, write: bool) {
        self.unmap(start, end);
        let owner = 0;
        self.areas.insert(start, Area { end, write, owner });
        self.join(end);
        self.join(start);
    }
}

impl Locked {
    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Areas for Locked {
    const NAME: &'static str = "RwLock<BTreeMap>";

    fn new() -> Self {
        Locked(RwLock::default())
    }

    fn map_at(&mut self, addr: u64, len: u64, write: bool) {
        self.write().put(addr, addr + len, write);
    }

    fn map(&mut self, len: u64) -> u64 {
        let mut map = self.write();
        let mut end = TOP;
        for (&start, area) in map.areas.range(..TOP).rev() {
            if area.end + len <= end {
                break;
            }
            end = start;
        }
        map.put(end - len, end, true);
        end - len
    }

    fn unmap(&mut self, addr: u64, len: u64) {
        self.write().unmap(addr, addr + len);
    }

    fn protect(&mut self, addr: u64, len: u64, write: bool) {
        let mut map = self.write();
        let end = addr + len;
        map.split(addr);
        map.split(end);
        let mut next = addr;
        // Up to the first hole, as Linux does.
        while next < end {
            let Some(area) = map.areas.get_mut(&next) else {
                break;
            };
            area.write = write;
            let after = area.end;
            map.join(next);
            next = after;
        }
        map.join(next);
    }

    fn touch(&mut self, addr: u64) {
        let mut map = self.write();
        let owner = map.owners + 1;
        if let Some((_, area)) = map.areas.range_mut(..addr + PAGE).next_back()
            && area.end > addr
            && area.write
            && area.owner == 0
        {
            area.owner = owner;
            map.owners = owner;
        }
    }
}
