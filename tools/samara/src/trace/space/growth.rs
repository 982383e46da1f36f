//! Areas that faults grow: the stack, and what `MAP_GROWSDOWN` made.

use samara_mm::{Call, VmFlags};

use super::Space;
use crate::trace::session::Session;

impl Space {
    /// Does the call touch areas that faults may have grown?
    pub(super) fn near_growth(&self, call: &Call) -> bool {
        if self.growing {
            return true;
        }
        // The stack grows down to its limit; calls close to it are few.
        let engine = self.follower.engine();
        let top = engine.layout().stack_top;
        let room = engine.limits().stack.clamp(8 << 20, 1 << 36);
        let (low, high) = (top.saturating_sub(room), top + (1 << 20));
        let touches =
            |addr: u64, len: u64| addr < high && addr.saturating_add(len) > low && addr != 0;
        match *call {
            Call::Mmap { addr, len, .. }
            | Call::Munmap { addr, len }
            | Call::Mprotect { addr, len, .. }
            | Call::Madvise { addr, len, .. }
            | Call::Mlock { addr, len, .. }
            | Call::Munlock { addr, len }
            | Call::Mseal { addr, len, .. }
            | Call::Msync { addr, len, .. }
            | Call::Mincore { addr, len }
            | Call::SetVmaName { addr, len, .. }
            | Call::Mbind { addr, len, .. } => touches(addr, len),
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
            _ => false,
        }
    }

    /// Learns how far stacks have grown.
    pub(super) fn sync_growth(&mut self, session: &mut Session) {
        let engine = self.follower.engine();
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
        for start in starts {
            if let Ok(Some(area)) = self.maps.at(start)
                && area.start < start
                && self.follower.grow_stack(area.start)
            {
                session.grown.push(area.start);
            }
        }
        self.note_grown(session);
    }

    /// Where to areas have grown since the entry of the call that returns. The call may have changed them, too: all that the kernel has, and
    /// the engine has not, directly below the former start counts.
    pub(super) fn look_for_growth(&mut self) {
        let engine = self.follower.engine();
        let grows = |area: &samara_mm::Area<'_>| area.vma.flags.contains(VmFlags::GROWSDOWN);
        for area in engine.areas().filter(grows) {
            let mut lowest = area.start;
            while engine.lookup(lowest - 1).is_none()
                && let Ok(Some(below)) = self.maps.at(lowest - 1)
            {
                lowest = below.start;
            }
            if lowest < area.start {
                self.grown_meanwhile.push(lowest);
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
