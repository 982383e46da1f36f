//! Comparing what a call can have changed, in maps that take long to read.
//!
//! With `--verify each` the whole map is read after every call while it has few areas. With many
//! areas, `PROCMAP_QUERY` compares those that the call has named or made, with their neighbours.
//! The whole map follows after a number of calls, so that on average [`SHARE`] of its areas are
//! read for each. The whole map is read at once if the part differs, if a call can change anything
//! anywhere, and at fork, exec and exit as before.
//!
//! Records have whole maps only.

use samara_conformance::orderings::Range;
use samara_mm::{Call, FileArg, FileKind, PAGE_SIZE};

use super::Space;
use crate::trace::session::Session;
use crate::trace::session::Verify;

/// The most areas of a map that is compared whole each time.
const FEW: usize = 256;
/// The number of areas of whole maps that are read for each call, on average.
const SHARE: usize = 16;
/// A part of more areas than these is not asked for one by one.
const MOST: usize = 256;
const PMD_SIZE: u64 = 2 << 20;

/// Returns the ranges that a call which has returned can have changed, or `None` if that is
/// anywhere, or unknown.
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
        // From its start to where it ends, or would.
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
    /// Compares the ranges that `call` can have changed. Returns `false` if the whole map must be
    /// compared instead: its time has come, or the part differs.
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
