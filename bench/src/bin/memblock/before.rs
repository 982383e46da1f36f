//! The scheme before: count what a range needs, grow, then go through it again to insert; merge at the end. Written for this
//! comparison from the description of the idea that replaces it. Every pass begins at the first region. Only when the
//! array is less than half full is the counting pass left out.

use samara_memblock::{Flags, NodeId, PAGE_SIZE, Region};

use crate::bed::{Boot, CType, as_c};

/// Which array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Memory,
    Reserved,
}

fn array(m: &mut Boot, which: Which) -> &mut CType {
    let m = as_c(m);
    match which {
        Which::Memory => &mut m.memory,
        Which::Reserved => &mut m.reserved,
    }
}

impl CType {
    fn at(&mut self, i: usize) -> &mut Region {
        debug_assert!(i < self.max);
        // SAFETY: the array has `max` entries.
        unsafe { &mut *self.regions.add(i) }
    }

    /// Moves all from `from` on to `to`.
    fn shift(&mut self, from: usize, to: usize) {
        // SAFETY: counts stay within the capacity.
        unsafe {
            self.regions
                .add(from)
                .copy_to(self.regions.add(to), self.cnt - from)
        };
    }

    fn insert(&mut self, i: usize, base: u64, size: u64) {
        self.shift(i, i + 1);
        *self.at(i) = Region {
            base,
            size,
            flags: Flags::NONE,
            nid: NodeId::NONE,
        };
        self.cnt += 1;
        self.total_size += size;
    }

    fn remove(&mut self, i: usize) {
        self.total_size -= self.at(i).size;
        self.shift(i + 1, i);
        self.cnt -= 1;
    }

    fn merge(&mut self, first: usize, past: usize) {
        let mut i = first.saturating_sub(1);
        let mut past = past.min(self.cnt.saturating_sub(1));
        while i < past {
            let (this, next) = (*self.at(i), *self.at(i + 1));
            if this.end() != next.base || this.nid != next.nid || this.flags != next.flags {
                i += 1;
                continue;
            }
            self.at(i).size += next.size;
            self.shift(i + 2, i + 1);
            self.cnt -= 1;
            past -= 1;
        }
    }
}

/// Adds a range without node and flags. Panics when growing fails, as the benchmark cannot go on then.
pub fn add(m: &mut Boot, which: Which, base: u64, size: u64) {
    let end = base + size;
    let t = array(m, which);
    if t.cnt == 0 {
        t.insert(0, base, size);
        return;
    }
    let mut insert = t.cnt * 2 < t.max;
    loop {
        let t = array(m, which);
        let (mut at, mut needed, mut first, mut past) = (base, 0, None, 0);
        let mut i = 0;
        while i < t.cnt {
            let (low, high) = (t.at(i).base, t.at(i).end());
            if low >= end {
                break;
            }
            if high > at {
                if low > at {
                    needed += 1;
                    if insert {
                        first.get_or_insert(i);
                        past = i + 1;
                        t.insert(i, at, low - at);
                        i += 1;
                    }
                }
                at = high.min(end);
            }
            i += 1;
        }
        if at < end {
            needed += 1;
            if insert {
                first.get_or_insert(i);
                past = i + 1;
                t.insert(i, at, end - at);
            }
        }
        if needed == 0 {
            return;
        }
        if insert {
            t.merge(first.unwrap_or(0), past);
            return;
        }
        while array(m, which).cnt + needed > array(m, which).max {
            grow(m, which, base, end);
        }
        insert = true;
    }
}

fn grow(m: &mut Boot, which: Which, base: u64, end: u64) {
    let limit = m.current_limit();
    let (old, cnt, max) = {
        let t = array(m, which);
        (t.regions, t.cnt, t.max)
    };
    let bytes = |max: usize| ((max * size_of::<Region>()) as u64).next_multiple_of(PAGE_SIZE);
    let from = if which == Which::Reserved { end } else { 0 };
    let place = m
        .find_in_range(from, limit, bytes(max * 2), PAGE_SIZE)
        .or_else(|| m.find_in_range(0, base.min(limit), bytes(max * 2), PAGE_SIZE))
        .expect("memory for a larger array");
    let new = std::ptr::with_exposed_provenance_mut::<Region>(place as usize);
    // SAFETY: free memory of that size, which is reserved below.
    unsafe {
        new.copy_from_nonoverlapping(old, cnt);
        new.add(cnt).write_bytes(0, max * 2 - cnt);
    }
    let t = array(m, which);
    t.regions = new;
    t.max = max * 2;
    // The first array was static; later ones were reserved.
    if max > 128 {
        remove(m, Which::Reserved, old as u64, bytes(max));
    }
    add(m, Which::Reserved, place, bytes(max * 2));
}

/// Removes a range: splits at its ends by a pass from the first region, then takes out region by region.
pub fn remove(m: &mut Boot, which: Which, base: u64, size: u64) {
    let end = base + size;
    let t = array(m, which);
    let (mut first, mut past) = (0, 0);
    let mut i = 0;
    while i < t.cnt {
        let r = *t.at(i);
        if r.base >= end {
            break;
        }
        if r.end() > base {
            if r.base < base {
                t.at(i).base = base;
                t.at(i).size = r.end() - base;
                t.total_size -= base - r.base;
                t.insert(i, r.base, base - r.base);
            } else if r.end() > end {
                t.at(i).base = end;
                t.at(i).size = r.end() - end;
                t.total_size -= end - r.base;
                t.insert(i, r.base, end - r.base);
                continue;
            } else {
                if past == 0 {
                    first = i;
                }
                past = i + 1;
            }
        }
        i += 1;
    }
    for i in (first..past).rev() {
        t.remove(i);
    }
}
