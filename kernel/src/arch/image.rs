//! The kernel's image, whose layout `image.ld` defines.

use core::ops::Range;

use super::{Arch, Machine, Segment};

const OFFSET: u64 = Arch::IMAGE_OFFSET;

unsafe extern "C" {
    /// The starts of the image's parts, and its end. They are numbers rather than symbols, because
    /// parts may be empty, and the compiler assumes that two symbols have different addresses.
    static image_bounds: [u64; 7];
}

fn bounds() -> &'static [u64; 7] {
    // SAFETY: the linker script defines the array, and it is constant.
    unsafe { &image_bounds }
}

/// Returns the physical addresses of the image.
pub(super) fn physical() -> Range<u64> {
    bounds()[0] - OFFSET..bounds()[4] - OFFSET
}

/// Returns the physical address of the page of code that programs map, if the image has one.
pub(super) fn sigreturn_page() -> Option<u64> {
    let [start, end] = [bounds()[5], bounds()[6]];
    (start < end).then_some(start - OFFSET)
}

/// Returns the segments: code, constants, data.
pub(super) fn segments() -> impl Iterator<Item = Segment> {
    (1..4).map(|i| Segment {
        addresses: bounds()[i]..bounds()[i + 1],
        physical: bounds()[i] - OFFSET,
        write: i == 3,
        execute: i == 1,
    })
}

/// Calls `frame` with the return address of each caller. `at` is a frame pointer. The caller's
/// frame pointer and the return address are at `at` plus `offset`.
pub(super) fn back_trace(mut at: u64, offset: i64, frame: &mut dyn FnMut(u64)) {
    for _ in 0..32 {
        // A frame pointer is an aligned address in the kernel's half.
        if (at as i64) >= 0 || !at.is_multiple_of(8) {
            return;
        }
        let record = at.wrapping_add_signed(offset) as usize;
        // SAFETY: a frame record that the compiler made: the caller's frame pointer and the return
        // address.
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
