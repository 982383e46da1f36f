//! Walks over ranges. A position is a number that the caller keeps between calls. Whatever its
//! value, a call stays within the arrays.

use core::ffi::{c_int, c_uint, c_ulong};
use core::ptr;

use samara_memblock::{Cursor, Filter, Flags, NodeId, Region, RegionType, Span};

use super::{PhysAddr, global, narrow, widen};

/// Returns the parts of a walk: two arrays (the second may be missing), and the filter for the
/// first.
///
/// # Safety
///
/// `a` is valid, `b` valid or null.
unsafe fn walk<'a>(
    a: *const RegionType,
    b: *const RegionType,
    nid: c_int,
    flags: c_uint,
) -> (&'a RegionType, Option<&'a [Region]>, Filter) {
    // SAFETY: the caller's duty. Nothing writes through other references concurrently.
    let (a, b, m) = unsafe { (&*a, b.as_ref(), global()) };
    // Nodes and flags matter only in a walk over memory.
    let filter = if ptr::eq(a, m.memory()) {
        m.filter(NodeId(nid), Flags::from_bits_retain(flags))
    } else {
        Filter::ALL
    };
    (a, b.map(RegionType::as_slice), filter)
}

/// Stores the position of a walk, and what it has found.
///
/// # Safety
///
/// `idx` is valid for a write. The others are valid for a write or null.
unsafe fn write_span(
    idx: *mut u64,
    at: Cursor,
    found: Option<Span>,
    start: *mut PhysAddr,
    end: *mut PhysAddr,
    nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(span) = found else {
            idx.write(Cursor::END);
            return;
        };
        idx.write(at.pack());
        put(start, span.start);
        put(end, span.end);
        put(nid, span.nid.0);
    }
}

/// Stores a value unless the pointer is null.
///
/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: the caller's duty.
        unsafe { out.write(value) };
    }
}

/// Yields the next part of `a` that `b` does not cover, upwards. `*idx` starts as 0 and ends as
/// `ULLONG_MAX`.
///
/// # Safety
///
/// `idx` and `a` are valid, the others valid or null. One call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_range(
    idx: *mut u64,
    nid: c_int,
    flags: c_uint,
    a: *mut RegionType,
    b: *mut RegionType,
    start: *mut PhysAddr,
    end: *mut PhysAddr,
    out_nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    unsafe {
        let (a, b, filter) = walk(a, b, nid, flags);
        let mut at = Cursor::unpack(idx.read());
        let found = at.next(a, b, &filter);
        write_span(idx, at, found, start, end, out_nid);
    }
}

/// Yields the next part of `a` that `b` does not cover, downwards. `*idx` starts and ends as
/// `ULLONG_MAX`.
///
/// # Safety
///
/// As for [`__next_mem_range`].
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_range_rev(
    idx: *mut u64,
    nid: c_int,
    flags: c_uint,
    a: *mut RegionType,
    b: *mut RegionType,
    start: *mut PhysAddr,
    end: *mut PhysAddr,
    out_nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    unsafe {
        let (a, b, filter) = walk(a, b, nid, flags);
        let mut at = match idx.read() {
            Cursor::END => Cursor::top(a, b),
            packed => Cursor::unpack(packed),
        };
        let found = at.next_back(a, b, &filter);
        write_span(idx, at, found, start, end, out_nid);
    }
}

/// Yields the next free page frames within `first..past`, of a node or of any. `*idx` starts as 0
/// and ends as `ULLONG_MAX`.
///
/// # Safety
///
/// `idx` is valid, the others valid or null. One call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_free_pfn_range(
    idx: *mut u64,
    nid: c_int,
    first: c_ulong,
    past: c_ulong,
    start: *mut c_ulong,
    end: *mut c_ulong,
    out_nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    unsafe {
        let m = global();
        let filter = m.filter(NodeId(nid), Flags::NONE);
        let mut at = Cursor::unpack(idx.read());
        while let Some(span) = at.next(m.memory(), Some(m.reserved()), &filter) {
            let frames = span.frames();
            let (low, high) = (frames.start.max(widen(first)), frames.end.min(widen(past)));
            if low < high {
                idx.write(at.pack());
                put(start, narrow(low));
                put(end, narrow(high));
                put(out_nid, span.nid.0);
                return;
            }
        }
        idx.write(Cursor::END);
    }
}

/// Yields the next region of memory that contains whole page frames, in frames. `*idx` starts and
/// ends as −1.
///
/// # Safety
///
/// `idx` is valid, the others valid or null. One call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_pfn_range(
    idx: *mut c_int,
    nid: c_int,
    start: *mut c_ulong,
    end: *mut c_ulong,
    out_nid: *mut c_int,
) {
    // SAFETY: one call at a time, and `idx` is valid.
    let (m, last) = unsafe { (global(), idx.read()) };
    let nid = NodeId(nid).canonical();
    // −1 is before the first region.
    let from = usize::try_from(i64::from(last) + 1).unwrap_or(0);
    let found = m
        .memory()
        .iter()
        .enumerate()
        .skip(from)
        .map(|(i, r)| (i, r.memory_frames(), r.nid))
        .find(|(_, frames, of)| frames.start < frames.end && (!nid.is_valid() || nid == *of));
    // SAFETY: the caller's duty.
    unsafe {
        let Some((i, frames, of)) = found else {
            idx.write(-1);
            return;
        };
        idx.write(c_int::try_from(i).unwrap_or(c_int::MAX));
        put(start, narrow(frames.start));
        put(end, narrow(frames.end));
        put(out_nid, of.0);
    }
}
