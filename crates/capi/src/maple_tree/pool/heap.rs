//! A replacement of [the system's pages](super::system) by memory of the global allocator, for
//! systems without `mmap` and for the interpreter, which does not know it.

use core::alloc::Layout;
use core::ptr::NonNull;

/// Allocates `bytes` of zeroed memory, a power of two, aligned to its size. Returns `None` if there
/// is none.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, bytes).ok()?;
    // SAFETY: no caller requests zero bytes.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Frees memory.
///
/// # Safety
///
/// It came from [`map`] with this size, and nothing uses it any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise; `map` accepted the layout.
    unsafe {
        let layout = Layout::from_size_align_unchecked(bytes, bytes);
        std::alloc::dealloc(at.as_ptr(), layout);
    }
    true
}

/// Does nothing and returns `false`.
///
/// # Safety
///
/// None.
pub(super) unsafe fn discard(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// Returns a size larger than any piece of memory.
pub(super) fn page() -> usize {
    usize::MAX
}
