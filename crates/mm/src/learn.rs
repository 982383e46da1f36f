//! Which facts about real pages a call depends on.
//!
//! An area without an anon_vma that is private and writable may have been written since the last look. Before a
//! call may join, cut, move or empty such an area, the owner of the pages is asked.

use crate::call::Call;
use crate::facts::Facts;
use crate::file::FileArg;
use crate::flags::{map, page_align};
use crate::space::AddressSpace;

/// At most this many windows of addresses concern one call.
const WINDOWS: usize = 3;

/// Ranges whose areas a call may join, cut or empty; empty ones are unused.
type Windows = [(u64, u64); WINDOWS];

impl AddressSpace {
    /// The page ranges whose [`Facts::written`] [`perform`](Self::perform) may ask for `call`, given to `ask(start, end)`: each is the whole of an
    /// area that may have been written without this map's knowing. Few: neighbours of the range and what lies in it.
    pub fn facts_needed(&self, call: &Call, ask: &mut dyn FnMut(u64, u64)) {
        for (low, high) in self.windows(call, None) {
            let mut next = low;
            while let Some(area) = self.vmas.find_in(next, high) {
                if area.vma.may_have_been_written() {
                    ask(area.start, area.end);
                }
                next = area.end;
            }
        }
    }

    pub(crate) fn learn(&mut self, call: &Call, forced: Option<u64>, facts: &mut dyn Facts) {
        for (low, high) in self.windows(call, forced) {
            let mut next = low;
            while let Some(area) = self.vmas.find_in(next, high) {
                let (start, end) = (area.start, area.end);
                if area.vma.may_have_been_written() && facts.written(start, end) {
                    self.touch(start);
                }
                next = end;
            }
        }
    }

    fn windows(&self, call: &Call, forced: Option<u64>) -> Windows {
        let none = (0, 0);
        // The range itself and both neighbours.
        let around = |addr: u64, len: u64| {
            let addr = addr & !0xfff;
            (
                addr.saturating_sub(1),
                addr.saturating_add(page_align(len)).saturating_add(1),
            )
        };
        match call {
            Call::Mmap {
                addr,
                len,
                flags,
                file,
                offset,
                ..
            } => {
                let len = page_align(*len);
                let fixed = flags & (map::FIXED | map::FIXED_NOREPLACE) != 0;
                let file = if flags & map::ANONYMOUS != 0 {
                    &FileArg::None
                } else {
                    file
                };
                let start = match forced {
                    Some(start) if !fixed => start,
                    _ if len == 0 => return [none; WINDOWS],
                    _ => match self.mmap_place(*addr, len, *flags, file, *offset) {
                        Ok(start) => start,
                        Err(_) => return [none; WINDOWS],
                    },
                };
                [around(start, len), none, none]
            }
            // What is removed counts too: a neighbour that was written may have taken its owner over from it.
            Call::Munmap { addr, len } => [around(*addr, *len), none, none],
            Call::Mprotect { addr, len, .. }
            | Call::Madvise { addr, len, .. }
            | Call::Mlock { addr, len, .. }
            | Call::Munlock { addr, len }
            | Call::Mseal { addr, len, .. }
            | Call::SetVmaName { addr, len, .. }
            | Call::Mbind { addr, len, .. }
            | Call::RemapFilePages { addr, len, .. } => {
                [around(*addr, len.saturating_add(addr & 0xfff)), none, none]
            }
            Call::Brk { .. } => [around(self.layout.brk, 4096), none, none],
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => {
                let to = match forced {
                    Some(to) => Some(to),
                    None => self.mremap_target(*old_addr, *old_len, *new_len, *flags, *new_addr),
                };
                [
                    around(*old_addr, (*old_len).max(*new_len)),
                    to.map_or(none, |to| around(to, *new_len)),
                    none,
                ]
            }
            Call::Mlockall { .. } | Call::Munlockall => [(0, u64::MAX), none, none],
            _ => [none; WINDOWS],
        }
    }
}
