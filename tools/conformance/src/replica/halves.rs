//! The possible effects of a call before the kernel broke it off or refused the rest.

use samara_mm::{AddressSpace, Call, PAGE_SIZE};

const MREMAP_FIXED: u64 = 2;

/// Returns the calls that do the same as the first part of a `mremap`, for each way that is possible. It
/// unmaps what is in its way, then what it will no more need, and
/// then asks for its place or parts pages; of several areas, those below have moved by then.
pub fn halves(call: &Call, engine: &AddressSpace) -> Vec<Vec<Call>> {
    let Call::Mremap {
        old_addr,
        old_len,
        new_len,
        flags,
        new_addr,
    } = *call
    else {
        return Vec::new();
    };
    let aligned = |len: u64| len.checked_next_multiple_of(PAGE_SIZE).unwrap_or(len);
    let (old_len, new_len) = (aligned(old_len), aligned(new_len));
    let old_end = old_addr.saturating_add(old_len);
    let unmap = |addr: u64, len: u64| Call::Munmap { addr, len };
    let is_fixed = flags & MREMAP_FIXED != 0;
    if new_len != old_len || !is_fixed {
        let in_the_way = is_fixed.then(|| unmap(new_addr, new_len));
        let needed_no_more =
            (new_len < old_len).then(|| unmap(old_addr.saturating_add(new_len), old_len - new_len));
        return vec![in_the_way.into_iter().chain(needed_no_more).collect()];
    }
    // What lies below an area has been moved, and what is in the way of that one unmapped.
    let mut ways = Vec::new();
    let mut moved = 0;
    let mut at = old_addr;
    while let Some(area) = engine.find_intersection(at, old_end) {
        let (from, to) = (area.start.max(old_addr), area.end.min(old_end));
        let below = (moved > 0).then_some(Call::Mremap {
            old_addr,
            old_len: moved,
            new_len: moved,
            flags,
            new_addr,
        });
        let in_the_way = unmap(new_addr.saturating_add(from - old_addr), to - from);
        ways.push(below.into_iter().chain([in_the_way]).collect());
        moved = to - old_addr;
        at = to;
    }
    ways
}
