//! The system's memory: pages that appear when they are first touched, and disappear when they are
//! unmapped.
//!
//! Not the C library's `malloc`: its lock is one more that a child of `fork` may find held, and
//! memory that is freed to it need not go back to the system.

use core::ptr::{self, NonNull};

/// Maps `bytes` of zeroed memory, a power of two and at least a page, aligned to its size. Returns
/// `None` if there is none.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let at = anonymous(bytes)?;
    let skewed = at.addr().get() % bytes;
    if skewed == 0 {
        return Some(at);
    }
    // Maps twice the size elsewhere and unmaps both ends. The next mapping often lies next to this
    // one, and is aligned.
    //
    // SAFETY: it was mapped just now, with this size.
    unsafe { unmap(at, bytes) };
    let at = anonymous(bytes.checked_mul(2)?)?;
    let before = at.addr().get().wrapping_neg() % bytes;
    // SAFETY: the offsets are within what was mapped just now, and only its ends are unmapped.
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
    // SAFETY: a new mapping at any address.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(at.cast())
}

/// Unmaps memory. Returns `false` if the system refuses: it limits the number of mappings, and this
/// may split one in two.
///
/// # Safety
///
/// The pages came from [`map`], and nothing uses them any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    bytes == 0 || unsafe { libc::munmap(at.as_ptr().cast(), bytes) == 0 }
}

/// Discards the content of pages, which stay mapped. Returns `true` after success.
///
/// # Safety
///
/// The pages came from [`map`], and nothing uses their content.
pub(super) unsafe fn discard(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Returns the size of a page in bytes.
pub(super) fn page() -> usize {
    // SAFETY: the call only returns a value.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
