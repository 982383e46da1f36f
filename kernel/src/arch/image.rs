//! The kernel's image: where `image.ld` puts its parts.

use core::ops::Range;

use super::{Arch, Machine, Segment};

const OFFSET: u64 = Arch::IMAGE_OFFSET;

unsafe extern "C" {
    /// Where the parts begin, and the end. Numbers: parts may be empty, and symbols of two things never have one address for the compiler.
    static image_bounds: [u64; 7];
}

fn bounds() -> &'static [u64; 7] {
    // SAFETY: the script's, and constant.
    unsafe { &image_bounds }
}

/// Physical addresses of all of it.
pub(super) fn physical() -> Range<u64> {
    bounds()[0] - OFFSET..bounds()[4] - OFFSET
}

/// The physical address of the page of code that programs map, if there is one.
pub(super) fn program_page() -> Option<u64> {
    let [start, end] = [bounds()[5], bounds()[6]];
    (start < end).then_some(start - OFFSET)
}

/// Code, constants, data.
pub(super) fn segments() -> impl Iterator<Item = Segment> {
    (1..4).map(|i| Segment {
        addresses: bounds()[i]..bounds()[i + 1],
        physical: bounds()[i] - OFFSET,
        write: i == 3,
        execute: i == 1,
    })
}

/// Calls `frame` with the return address of each caller. `at` is a frame pointer: the caller's frame pointer and the return address lie from `at` plus `offset` on.
pub(super) fn back_trace(mut at: u64, offset: i64, frame: &mut dyn FnMut(u64)) {
    for _ in 0..32 {
        // The kernel's half, aligned.
        if (at as i64) >= 0 || !at.is_multiple_of(8) {
            return;
        }
        let record = at.wrapping_add_signed(offset) as usize;
        // SAFETY: a frame of the compiler's: the caller's frame, and the address to return to.
        let [caller, back] = unsafe { *core::ptr::with_exposed_provenance::<[u64; 2]>(record) };
        if back < OFFSET {
            return;
        }
        frame(back);
        if caller <= at {
            return;
        }
        at = caller;
    }
}
