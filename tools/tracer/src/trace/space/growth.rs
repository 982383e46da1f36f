//! Areas that faults grow: the stack, and areas made with `MAP_GROWSDOWN`.

use samara_mm::{AddressSpace, Call, VmFlags};

use super::{MAP_GROWSDOWN, Space};
use crate::trace::session::Session;

impl Space {
    /// Returns `true` if the call depends on areas that faults may have grown.
    pub(super) fn near_growth(&self, call: &Call) -> bool {
        let engine = self.checker.engine();
        // All growth counts, wherever it is, because it may make the call exceed a limit.
        let counts = engine.limits().address_space != u64::MAX || engine.page_counts().locked > 0;
        if self.growing || counts {
            return true;
        }
        // The stack grows down to its limit. Calls close to it are few.
        let top = engine.layout().stack_top;
        let room = engine.limits().stack.clamp(8 << 20, 1 << 36);
        let (low, high) = (top.saturating_sub(room), top + (1 << 20));
        let touches =
            |addr: u64, len: u64| addr < high && addr.saturating_add(len) > low && addr != 0;
        match *call {
            Call::Mmap { addr, len, .. } => touches(addr, len),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                new_addr,
                ..
            } => touches(old_addr, old_len.max(new_len)) || touches(new_addr, new_len),
            Call::ProcessMadvise { ref ranges, .. } => {
                ranges.iter().any(|&(addr, len)| touches(addr, len))
            }
            Call::Mlockall { .. } | Call::Munlockall => true,
            _ => call.range().is_some_and(|(addr, len)| touches(addr, len)),
        }
    }

    /// Determines if areas besides the stack grow now, after a call that may have moved, divided or
    /// redefined the stack.
    pub(super) fn look_for_growing(&mut self, call: &Call) {
        let may = match call {
            Call::Mmap { flags, .. } if flags & MAP_GROWSDOWN != 0 => true,
            Call::SetMm { .. } => true,
            _ => self.near_growth(call),
        };
        if may && !self.growing {
            self.growing = grows_beside_stack(self.checker.engine());
        }
    }

    /// Returns `true` if an access there would grow the area above it.
    pub(crate) fn lies_below_growth(&self, address: u64) -> bool {
        let above = self.checker.engine().find_intersection(address, u64::MAX);
        above
            .is_some_and(|area| area.start > address && area.vma.flags.contains(VmFlags::GROWSDOWN))
    }

    /// Learns how far stacks have grown, the highest first. So an area that ends where the one
    /// above has grown to may have got its `anon_vma` there. The hypothesis that it had its own
    /// before is kept, too.
    pub(super) fn sync_growth(&mut self, session: &mut Session) {
        let engine = self.checker.engine();
        let grows = |area: &samara_mm::Area<'_>| area.vma.flags.contains(VmFlags::GROWSDOWN);
        let starts: Vec<u64> = if self.growing {
            engine
                .areas()
                .filter(grows)
                .map(|area| area.start)
                .collect()
        } else {
            let top = engine.layout().stack_top.saturating_sub(1);
            let stack = engine.lookup(top).map(|area| area.start);
            stack.into_iter().collect()
        };
        for start in starts.into_iter().rev() {
            if let Ok(Some(area)) = self.maps.at(start)
                && area.start < start
                && self.checker.grow_stack(area.start)
            {
                session.grown.push(area.start);
            }
        }
        self.note_grown(session);
    }

    /// Finds the areas that have grown since the entry of `call`, which returns. The call may have
    /// changed them, too. Everything that only the kernel has directly below the former start
    /// counts, also below a hole that the call has made there. The call's own mapping does not
    /// count.
    pub(super) fn look_for_growth(&mut self, call: &Call, returned: i64) {
        let emptied = emptied(call);
        let mapped = mapped(call, returned);
        let engine = self.checker.engine();
        let grows = |area: &samara_mm::Area<'_>| area.vma.flags.contains(VmFlags::GROWSDOWN);
        let maps = &mut self.maps;
        for area in engine.areas().filter(grows) {
            let known = |from, to| engine.find_intersection(from, to).is_some();
            let start_at = |address| Some(maps.at(address).ok()??.start);
            let lowest = grown_to(area.start, emptied, mapped, known, start_at);
            if lowest < area.start {
                self.grown_meanwhile.push(lowest);
            }
        }
        // The order is that of `sync_growth`.
        self.grown_meanwhile.reverse();
    }

    /// Learns the growth, like [`sync_growth`](Self::sync_growth), after `call` has returned. All
    /// growth happened before the call.
    pub(super) fn sync_growth_before(&mut self, call: &Call, returned: i64, session: &mut Session) {
        self.grown_meanwhile.clear();
        self.look_for_growth(call, returned);
        for start in self.grown_meanwhile.drain(..) {
            if self.checker.grow_stack(start) {
                session.grown.push(start);
            }
        }
        self.note_grown(session);
    }

    /// Learns the growth after another process's `call` has returned. That process may have written
    /// here as well.
    pub(crate) fn sync_growth_by_another(
        &mut self,
        call: &Call,
        returned: i64,
        session: &mut Session,
    ) {
        if self.growing && !self.broken {
            self.sync_growth_before(call, returned, session);
        }
    }

    /// Doubts, after the maps have differed, areas whose `anon_vma` nothing shows: the kernel's own
    /// store failed below a growing area, or a userfaultfd filled nothing.
    pub(super) fn doubt_growth(&mut self, session: &mut Session) {
        for (start, end) in self.checker.owned_in_vain() {
            self.checker.doubt(start, end);
            if let Some(record) = &mut session.record {
                record.shown_late(self.number, start, end);
            }
        }
    }

    pub(super) fn note_grown(&mut self, session: &mut Session) {
        session.tally.grown += session.grown.len() as u64;
        for start in session.grown.drain(..) {
            if let Some(record) = &mut session.record {
                record.grown(self.number, start);
            }
        }
    }
}

/// Returns `true` if areas other than the one with the stack's first byte grow by faults: mapped
/// with that flag, or moved or cut from the stack.
pub(super) fn grows_beside_stack(engine: &AddressSpace) -> bool {
    let top = engine.layout().stack_top.saturating_sub(1);
    engine
        .areas()
        .filter(|area| area.vma.flags.contains(VmFlags::GROWSDOWN))
        .any(|area| top < area.start || area.end <= top)
}

/// Returns the range that `call` leaves empty.
fn emptied(call: &Call) -> (u64, u64) {
    match *call {
        Call::Munmap { addr, len } => (addr, addr.saturating_add(len)),
        Call::Mremap {
            old_addr, old_len, ..
        } => (old_addr, old_addr.saturating_add(old_len)),
        _ => (0, 0),
    }
}

/// Returns the range that `call` has mapped.
fn mapped(call: &Call, returned: i64) -> (u64, u64) {
    let len = match *call {
        _ if (-4095..0).contains(&returned) => return (0, 0),
        Call::Mmap { len, .. } => len,
        Call::Mremap { new_len, .. } => new_len,
        Call::Shmat {
            segment: Some(ref segment),
            ..
        } => segment.size,
        _ => return (0, 0),
    };
    let start = returned as u64;
    (
        start,
        start.saturating_add(len.checked_next_multiple_of(0x1000).unwrap_or(len)),
    )
}

/// Returns the lowest address to which an area that began at `start` reaches now, or `start` if it
/// has not grown. Holes in the range `emptied` count as grown, the range `mapped` does not. Below
/// the mapped range lies earlier growth, unless the mapping has grown itself.
fn grown_to(
    start: u64,
    emptied: (u64, u64),
    mapped: (u64, u64),
    known: impl Fn(u64, u64) -> bool,
    mut start_at: impl FnMut(u64) -> Option<u64>,
) -> u64 {
    let (mut lowest, mut at) = (start, start);
    while at > 0 && !known(at - 1, at) {
        if mapped.0 < at && at <= mapped.1 {
            if known(mapped.0, at) || start_at(mapped.0) != Some(mapped.0) {
                break;
            }
            at = mapped.0;
        } else if let Some(below) = start_at(at - 1) {
            // Both may be one area now.
            let below = if below < mapped.1 && mapped.1 < at {
                mapped.1
            } else {
                below
            };
            (lowest, at) = (below, below);
        } else if emptied.0 < at && at <= emptied.1 {
            at = emptied.0;
        } else {
            break;
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_below_a_hole_that_a_call_made() {
        let grown = |emptied, areas: &'static [(u64, u64)]| {
            let start_at = |address| {
                let area = areas
                    .iter()
                    .find(|area| (area.0..area.1).contains(&address));
                area.map(|area| area.0)
            };
            grown_to(0x8000, emptied, (0, 0), |from, _| from < 0x2000, start_at)
        };
        assert_eq!(grown((0, 0), &[]), 0x8000);
        assert_eq!(grown((0, 0), &[(0x6000, 0x9000)]), 0x6000);
        // It grew to 0x6000, and was then unmapped from 0x7000 on.
        assert_eq!(grown((0x7000, 0x9000), &[(0x6000, 0x7000)]), 0x6000);
        assert_eq!(grown((0, 0), &[(0x6000, 0x7000)]), 0x8000);
        // A hole with nothing below it, and one further below.
        assert_eq!(grown((0x7000, 0x9000), &[(0x4000, 0x5000)]), 0x8000);
        assert_eq!(grown((0x3000, 0x4000), &[(0x2000, 0x3000)]), 0x8000);
        // The engine knows these areas already.
        assert_eq!(grown((0x1000, 0x9000), &[(0x0, 0x1000)]), 0x8000);
    }

    /// From a program in the storm: an area grew down to another growing area. The call then
    /// replaced that one by something else, up to the first area.
    #[test]
    fn the_mapping_of_a_call_is_no_growth() {
        let grown = |mapped, start| {
            let start_at = |address| (start..0x8000).contains(&address).then_some(start);
            grown_to(0x8000, (0, 0), mapped, |from, _| from < 0x2000, start_at)
        };
        assert_eq!(grown((0x3000, 0x8000), 0x3000), 0x8000);
        assert_eq!(grown((0x3000, 0x6000), 0x3000), 0x6000);
        assert_eq!(grown((0x3000, 0x6000), 0x6000), 0x6000);
        assert_eq!(grown((0x3000, 0x4000), 0x6000), 0x6000);
    }

    /// From a real caller: an area grew while another thread mapped something within the grown
    /// part.
    #[test]
    fn growth_below_the_mapping_of_a_call_is_seen() {
        let areas = [(0x3000, 0x5000), (0x5000, 0x6000), (0x6000, 0x9000)];
        let grown = |mapped, known: (u64, u64)| {
            let start_at = |address| {
                let mut areas = areas.iter();
                let area = areas.find(|area| (area.0..area.1).contains(&address));
                area.map(|area| area.0)
            };
            let known = |from, to| from < known.1 && known.0 < to;
            grown_to(0x8000, (0, 0), mapped, known, start_at)
        };
        assert_eq!(grown((0x5000, 0x6000), (0, 0x2000)), 0x3000);
        // Another area lay there before.
        assert_eq!(grown((0x5000, 0x6000), (0x5000, 0x6000)), 0x6000);
        // The new mapping has grown itself.
        assert_eq!(grown((0x4000, 0x6000), (0, 0x2000)), 0x6000);
    }
}
