//! The slots of a leaf that hold entries, as bits: all slots are examined together, without a
//! branch.
//!
//! On targets with SSE2, words are narrowed with saturation, sixteen of them to one byte each: a
//! word that is not NULL stays different from 0. (Every x86-64 with vector registers has SSE2;
//! kernels may be built without them.)

use crate::base::{Key, Shape};
use crate::node::cells::Cells;
use crate::node::{Geometry, Kind};

/// Returns bit `i` for slot `i` of a leaf, if that is not NULL.
///
/// # Safety
///
/// The node is a leaf, and nothing writes its slots during the call.
#[inline(always)]
pub(super) unsafe fn entries<K: Key, S: Shape>(cells: Cells<K, S>) -> u32 {
    let slots = Geometry::<K, S>::SLOTS;
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(samara_loom)))]
    if slots >= sse2::AT_ONCE {
        let at = cells.leaf_slots();
        // SAFETY: all slots that are read are within the leaf, and not written (the caller's
        // promise).
        let mut bits = unsafe { sse2::not_null(at) };
        let mut done = sse2::AT_ONCE;
        while done < slots {
            // The last ones may overlap those before.
            let from = done.min(slots - sse2::AT_ONCE);
            // SAFETY: as above.
            bits |= unsafe { sse2::not_null(at.add(from)) } << from;
            done += sse2::AT_ONCE;
        }
        return bits;
    }
    of(slots, |i| {
        // SAFETY: within the slots, which nothing writes (the caller's promise).
        !unsafe { cells.quiet_slot(Kind::Leaf, i) }.is_null()
    })
}

/// Returns bit `i` for each `i` below `count` for which `bit` is `true`.
///
/// The two halves do not wait for each other. Each bit is one addition with carry of a number and
/// an [`opaque`] copy of it. Without that, the compiler turns the doubling into a shift and the sum
/// into an `or`, which takes more instructions.
#[inline(always)]
pub(super) fn of(count: usize, bit: impl Fn(usize) -> bool) -> u32 {
    let bit = |i| usize::from(bit(i));
    let add = |bits: usize, i| bits.wrapping_add(opaque(bits)).wrapping_add(bit(i));
    let part = |from: usize, last: usize| (from..last).rev().fold(bit(last), add);
    let half = count / 2;
    (part(0, half - 1) | part(half, count - 1) << half) as u32
}

/// Returns the same number, about which the compiler knows nothing.
#[cfg(all(target_arch = "x86_64", not(any(miri, samara_loom))))]
#[inline(always)]
pub(super) fn opaque(number: usize) -> usize {
    let mut same = number;
    // SAFETY: the block contains no instruction.
    unsafe {
        core::arch::asm!("/* {} */", inout(reg) same, options(pure, nomem, nostack, preserves_flags));
    }
    same
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, samara_loom)))))]
#[inline(always)]
pub(super) fn opaque(number: usize) -> usize {
    number
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(samara_loom)))]
mod sse2 {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_packs_epi32, _mm_setzero_si128,
    };

    use crate::node::Word;

    /// The number of words that one call examines.
    pub(super) const AT_ONCE: usize = 16;

    /// Returns bit `i` for the word at `i`, if that is not NULL.
    ///
    /// # Safety
    ///
    /// There are 16 words at `at`, which nothing writes during the call.
    #[inline(always)]
    pub(super) unsafe fn not_null(at: *const Word) -> u32 {
        let at = at.cast::<__m128i>();
        // SAFETY: the instructions exist (the target has them), and all loads are within the 16
        // words (the caller's promise).
        unsafe {
            // Narrows four words to four halves each, then to two, then to one.
            let four = |i: usize| {
                let (a, b) = (
                    _mm_loadu_si128(at.add(2 * i)),
                    _mm_loadu_si128(at.add(2 * i + 1)),
                );
                _mm_packs_epi32(a, b)
            };
            let low = _mm_packs_epi32(four(0), four(1));
            let high = _mm_packs_epi32(four(2), four(3));
            let null = _mm_cmpeq_epi8(_mm_packs_epi16(low, high), _mm_setzero_si128());
            !(_mm_movemask_epi8(null) as u32) & 0xffff
        }
    }
}
