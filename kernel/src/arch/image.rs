//! The kernel's image: where `image.ld` puts its parts.

use core::ops::Range;

use super::Segment;

/// The image is linked at its physical address plus this.
pub(super) const OFFSET: u64 = 0xffff_ffff_8000_0000;

unsafe extern "C" {
    static image_start: u8;
    static text_start: u8;
    static user_start: u8;
    static rodata_start: u8;
    static data_start: u8;
    static image_end: u8;
}

/// Physical addresses of all of it.
pub(super) fn physical() -> Range<u64> {
    &raw const image_start as u64..&raw const image_end as u64
}

/// Code, code that programs may execute, constants, data.
pub(super) fn segments() -> impl Iterator<Item = Segment> {
    let ends = [
        &raw const text_start,
        &raw const user_start,
        &raw const rodata_start,
        &raw const data_start,
    ]
    .map(|at| at as u64);
    (0..4).map(move |i| Segment {
        addresses: ends[i]..ends.get(i + 1).copied().unwrap_or(physical().end + OFFSET),
        physical: ends[i] - OFFSET,
        write: i == 3,
        execute: i < 2,
        user: i == 1,
    })
}

/// Calls `frame` with the return address of each caller. `at` is a frame pointer: the caller's frame pointer and the return address lie from `at` plus `offset` on.
pub(super) fn back_trace(mut at: u64, offset: i64, frame: &mut dyn FnMut(u64)) {
    for _ in 0..32 {
        // The kernel's half, aligned.
        if (at as i64) >= 0 || !at.is_multiple_of(8) {
            return;
        }
        let place = at.wrapping_add_signed(offset) as usize;
        // SAFETY: a frame of the compiler's: the caller's frame, and the address to return to.
        let [caller, back] = unsafe { *core::ptr::with_exposed_provenance::<[u64; 2]>(place) };
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
