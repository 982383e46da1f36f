//! Page frame numbers: the frames within a range of bytes, and those that it touches.

use core::ops::Range;

/// The size of a page in bytes.
pub const PAGE_SIZE: u64 = 4096;

/// Returns the frames that lie entirely in `start..end`, which may be none.
#[inline]
pub(crate) const fn contained_frames(start: u64, end: u64) -> Range<u64> {
    start.div_ceil(PAGE_SIZE)..end / PAGE_SIZE
}

/// Returns the frames that share a byte with `start..end`.
#[inline]
pub(crate) const fn touching_frames(start: u64, end: u64) -> Range<u64> {
    start / PAGE_SIZE..end.div_ceil(PAGE_SIZE)
}
