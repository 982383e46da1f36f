//! Compares the part of a map that a call can have changed, if the whole map takes long to read.
//!
//! With `--verify each` the whole map is read after every call while it has few areas. In a larger
//! map, only the call's areas and their neighbours are compared, by `PROCMAP_QUERY`. The whole map
//! is compared often enough that each call accounts for [`SHARE`] of its areas on average. It is
//! read at once if the part differs, or if a call can change anything anywhere. Forks, exec and
//! exit still compare the whole map.
//!
//! Records hold only whole maps.

use samara_conformance::orderings::Range;
use samara_mm::{Call, FileArg, FileKind, PAGE_SIZE};

use super::Space;
use crate::trace::session::Session;
use crate::trace::session::Verify;

/// The number of areas up to which the whole map is compared each time.
const FEW: usize = 256;
/// The average number of areas of whole maps that are read for each call.
const SHARE: usize = 16;
/// The number of areas up to which a part is queried one by one.
const MOST: usize = 256;
const PMD_SIZE: u64 = 2 << 20;

/// Returns the ranges in which a call that has returned can have changed the map. `None` if that
/// can be anywhere, or is not known.
fn changed(call: &Call, returned: i64, heap: u64) -> Option<Vec<Range>> {
    const FIXED: u64 = libc::MAP_FIXED as u64;
    const HUGETLB: u64 = libc::MAP_HUGETLB as u64;
    let failed = (-4095..0).contains(&returned);
    let range = |addr: u64, len: u64| {
        let start = addr - addr % PAGE_SIZE;
        let end = addr.saturating_add(len);
        (
            start,
            end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(end),
        )
    };
    Some(match *call {
        Call::Mmap {
            addr,
            len,
            flags,
            ref file,
            ..
        } => {
            let of_pool = flags & HUGETLB != 0
                || matches!(file, FileArg::File(file) if matches!(file.kind, FileKind::HugeTlb(_)));
            let len = if of_pool {
                len.checked_next_multiple_of(PMD_SIZE)?
            } else {
                len
            };
            match failed {
                false => vec![range(returned as u64, len)],
                true if flags & FIXED != 0 => vec![range(addr, len)],
                true => Vec::new(),
            }
        }
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => {
            let mut ranges = vec![range(old_addr, old_len.max(new_len))];
            if !failed {
                ranges.push(range(returned as u64, new_len));
            } else if flags & libc::MREMAP_FIXED as u64 != 0 {
                ranges.push(range(new_addr, new_len));
            }
            ranges
        }
        // From the heap's start to its actual or requested end.
        Call::Brk { addr } => vec![(heap, addr.max(returned as u64).max(heap + 1))],
        Call::ProcessMadvise { ref ranges, .. } => {
            ranges.iter().map(|&(addr, len)| range(addr, len)).collect()
        }
        Call::PkeyAlloc { .. } | Call::PkeyFree { .. } | Call::SetMdwe { .. } => Vec::new(),
        _ => {
            let (addr, len) = call.range()?;
            vec![range(addr, len)]
        }
    })
}

impl Space {
    /// Compares the part that `call` can have changed. Returns `false` if the whole map must be
    /// compared instead, because it is time or the part differs.
    pub(super) fn compare_part(
        &mut self,
        call: &Call,
        returned: i64,
        session: &mut Session,
    ) -> bool {
        let engine = self.checker.engine();
        let areas = engine.area_count();
        let due = self.calls_since_whole + 1 >= (areas / SHARE) as u64;
        let in_parts = session.verify == Verify::Each && areas > FEW && !due;
        if !in_parts || self.broken || self.checker.is_undecided() || self.is_advice_open() {
            return false;
        }
        let heap = self.checker.engine().layout().start_brk;
        let Some(ranges) = changed(call, returned, heap) else {
            return false;
        };
        let mut compared = 0;
        for range in ranges.into_iter().filter(|range| range.0 < range.1) {
            let (window, areas) = self.checker.window(range, MOST);
            if areas > MOST || self.maps.part(window, areas, &mut session.map).is_err() {
                return false;
            }
            let renamed = &mut session.tally.renamed;
            if !self.checker.agrees_within(window, &session.map, renamed) {
                return false;
            }
            compared += areas as u64;
        }
        self.calls_since_whole += 1;
        session.tally.maps += 1;
        session.tally.parts += 1;
        session.tally.areas_compared += compared;
        true
    }
}
