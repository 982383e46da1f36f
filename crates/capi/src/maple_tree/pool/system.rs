//! The system's memory: pages that are there when they are first touched, and gone when they are given back.
//!
//! Not the C library's `malloc`: its lock would be one more that a child of `fork` may find held, and what is given back to it need not go
//! back to the system.

use core::ptr::{self, NonNull};

/// Zeroed memory of `bytes`, a power of two and at least a page, aligned to its size. `None` if there is none.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let at = anonymous(bytes)?;
    let skewed = at.addr().get() % bytes;
    if skewed == 0 {
        return Some(at);
    }
    // Elsewhere, with room for what is to be cut off at both ends. The next one often lies beside this one, and is aligned.
    // SAFETY: it was mapped just now, with this size.
    unsafe { unmap(at, bytes) };
    let at = anonymous(bytes.checked_mul(2)?)?;
    let before = at.addr().get().wrapping_neg() % bytes;
    // SAFETY: the offsets are within what was mapped just now; only its ends are given back.
    unsafe {
        let aligned = at.add(before);
        unmap(at, before);
        unmap(aligned.add(bytes), bytes - before);
        Some(aligned)
    }
}

fn anonymous(bytes: usize) -> Option<NonNull<u8>> {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANON,
    );
    // SAFETY: a new mapping, wherever there is room.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(at.cast())
}

/// Gives memory back; whether that could be done (a system has limits for the number of mappings, of which this may make two of one).
///
/// # Safety
///
/// The pages came from [`map`], and nobody uses them any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    bytes == 0 || unsafe { libc::munmap(at.as_ptr().cast(), bytes) == 0 }
}

/// Gives pages back that stay mapped; whether that could be done. What is in them is lost.
///
/// # Safety
///
/// The pages came from [`map`], and nobody has anything in them.
pub(super) unsafe fn discard(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Bytes of a page.
pub(super) fn page() -> usize {
    // SAFETY: a question.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
