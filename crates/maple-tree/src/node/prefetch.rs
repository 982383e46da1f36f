//! Prefetching of nodes.

use crate::node::{NODE_BYTES, Word};

/// The width of a cache line on the machines that have a prefetch instruction.
const LINE: usize = 64;

/// Prefetches the lines `FROM..` of the node that a word points to. The slot to read is known only
/// once the pivots have arrived. Prefetched together, the lines arrive together. This is a hint:
/// any word is allowed.
#[inline(always)]
pub(crate) fn node<const FROM: usize>(word: Word) {
    lines::<FROM, { NODE_BYTES / LINE }>(word);
}

/// Prefetches the lines `FROM..TO`, as [`node`] does.
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
    // SAFETY: the instruction exists (the target has it). It may be given any address, and does not
    // access memory in the abstract machine.
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
