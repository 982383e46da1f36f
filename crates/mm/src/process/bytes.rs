//! Bytes of frames, which programs may read and write concurrently.
//!
//! Words are copied by relaxed atomic loads and stores. Concurrent accesses of two programs to one
//! word mix word by word, as on a processor, and are no data race.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The size of a page in bytes.
pub(super) const PAGE: usize = 4096;
const WORD: usize = size_of::<usize>();

/// Copies a whole frame.
///
/// # Safety
/// Both are valid for 4,096 bytes and aligned to that. `to` is not used concurrently.
pub(super) unsafe fn copy_page(from: NonNull<u8>, to: NonNull<u8>) {
    // SAFETY: whole, aligned pages, as the caller promises.
    unsafe {
        let from = from.cast::<AtomicUsize>();
        let to = to.cast::<usize>();
        for i in 0..PAGE / WORD {
            to.add(i)
                .write(from.add(i).as_ref().load(Ordering::Relaxed));
        }
    }
}

/// Fills a whole frame with zeroes.
///
/// # Safety
/// `at` is valid for 4,096 bytes, and is not used concurrently.
pub(super) unsafe fn clear_page(at: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { at.write_bytes(0, PAGE) };
}

/// Copies a whole frame that is not written concurrently.
///
/// # Safety
/// Both are valid for 4,096 bytes. `to` is not used concurrently, and `from` is not changed.
pub(super) unsafe fn copy_still_page(from: NonNull<u8>, to: NonNull<u8>) {
    // SAFETY: the caller's promise. Two frames do not overlap.
    unsafe { from.copy_to_nonoverlapping(to, PAGE) };
}

/// Copies bytes out of a frame.
///
/// # Safety
/// `from` is valid for reads of `to.len()` bytes, which change only by atomic stores.
pub(super) unsafe fn load(from: NonNull<u8>, to: &mut [u8]) {
    let mut at = 0;
    while at < to.len() {
        // SAFETY: within the bytes that the caller promised.
        unsafe {
            let next = from.add(at);
            if to.len() - at >= WORD && next.as_ptr().addr().is_multiple_of(WORD) {
                let word = next.cast::<AtomicUsize>().as_ref().load(Ordering::Relaxed);
                to[at..at + WORD].copy_from_slice(&word.to_ne_bytes());
                at += WORD;
            } else {
                to[at] = next.cast::<AtomicU8>().as_ref().load(Ordering::Relaxed);
                at += 1;
            }
        }
    }
}

/// Copies bytes into a frame.
///
/// # Safety
/// `to` is valid for writes of `from.len()` bytes. All other accesses to them are atomic.
pub(super) unsafe fn store(to: NonNull<u8>, from: &[u8]) {
    let mut at = 0;
    while at < from.len() {
        // SAFETY: within the bytes that the caller promised.
        unsafe {
            let next = to.add(at);
            let left = &from[at..];
            if let Some(word) = left.first_chunk::<WORD>()
                && next.as_ptr().addr().is_multiple_of(WORD)
            {
                let word = usize::from_ne_bytes(*word);
                next.cast::<AtomicUsize>()
                    .as_ref()
                    .store(word, Ordering::Relaxed);
                at += WORD;
            } else {
                next.cast::<AtomicU8>()
                    .as_ref()
                    .store(left[0], Ordering::Relaxed);
                at += 1;
            }
        }
    }
}
