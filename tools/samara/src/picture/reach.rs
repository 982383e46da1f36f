//! The areas that an event can have changed, so that only these are examined again.
//!
//! A call changes areas in the range that it names or returns, and may join them with the neighbours of that range. Few calls reach further.

use samara_mm::{AddressSpace, Call};

/// Bounds of what may have changed. Neighbours that touch a range may have been joined with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// In these ranges: each has its first address and the first beyond. Empty ones reach nothing.
    Ranges([(u64, u64); 2]),
    Everywhere,
}

const NOTHING: (u64, u64) = (0, 0);
const MREMAP_FIXED: u64 = 2;
const PAGE: u64 = 4096;

/// Returns the reach of a call that has been performed on `engine`. The heap ended at `brk` before.
/// A call that failed may have done some of its work.
pub(super) fn of(call: &Call, returned: i64, engine: &AddressSpace, brk: u64) -> Reach {
    let range = |start: u64, len: u64| {
        let end = start.saturating_add(len).saturating_add(PAGE - 1);
        (start & !(PAGE - 1), end & !(PAGE - 1))
    };
    let one = |start, len| Reach::Ranges([range(start, len), NOTHING]);
    let placed = (!(-4095..0).contains(&returned)).then_some(returned as u64);
    match *call {
        Call::Mmap { addr, len, .. } => one(placed.unwrap_or(addr), len),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => {
            let fixed = flags & MREMAP_FIXED != 0;
            let target = placed.or(fixed.then_some(new_addr));
            let target = target.map_or(NOTHING, |target| range(target, new_len));
            // What shrinks loses its end.
            Reach::Ranges([range(old_addr, old_len.max(new_len)), target])
        }
        // The heap gives its name to what borders on it.
        Call::Brk { .. } => {
            let layout = engine.layout();
            let end = layout.brk.max(brk);
            one(layout.start_brk, end.saturating_sub(layout.start_brk))
        }
        Call::Shmat {
            ref segment, addr, ..
        } => one(
            placed.unwrap_or(addr),
            segment.as_ref().map_or(0, |segment| segment.size),
        ),
        Call::PkeyAlloc { .. } | Call::PkeyFree { .. } | Call::SetMdwe { .. } => {
            Reach::Ranges([NOTHING; 2])
        }
        // Without a range: `mlockall`, `shmdt` and what may be added.
        _ => match call.range() {
            Some((addr, len)) => one(addr, len),
            None => Reach::Everywhere,
        },
    }
}
