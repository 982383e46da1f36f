//! Asking for memory before it is needed.

use crate::node::{NODE_BYTES, Word};

/// The width of a cache line on the machines that have an instruction for this.
const LINE: usize = 64;

/// Asks for the lines `FROM..` of the node that a word points to. Which slot will be read is known only when the pivots
/// are there: asked for together, the lines come together. A hint: any word is allowed.
#[inline(always)]
pub(crate) fn node<const FROM: usize>(word: Word) {
    lines::<FROM, { NODE_BYTES / LINE }>(word);
}

/// As [`node`], for the lines `FROM..TO`.
#[inline(always)]
pub(crate) fn lines<const FROM: usize, const TO: usize>(word: Word) {
    let base = word.cast::<u8>();
    let mut at = FROM * LINE;
    while at < TO * LINE {
        line(base.wrapping_add(at));
        at += LINE;
    }
}

#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse",
    not(any(miri, samara_loom))
))]
#[inline(always)]
fn line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction exists (the target has it); it reads nothing as far as the program can tell, at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(all(target_arch = "aarch64", not(any(miri, samara_loom))))]
#[inline(always)]
fn line(address: *const u8) {
    // SAFETY: a hint, at any address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(all(
    any(
        all(target_arch = "x86_64", target_feature = "sse"),
        target_arch = "aarch64"
    ),
    not(any(miri, samara_loom))
)))]
#[inline(always)]
fn line(_: *const u8) {}
