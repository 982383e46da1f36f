//! In place of [the system's pages](super::system), where there are none to be had or none that the interpreter knows: the memory of the
//! global allocator.

use core::alloc::Layout;
use core::ptr::NonNull;

/// Zeroed memory of `bytes`, a power of two, aligned to its size. `None` if there is none.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, bytes).ok()?;
    // SAFETY: nobody asks for no bytes.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Gives memory back.
///
/// # Safety
///
/// It came from [`map`] with this size, and nobody uses it any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise; `map` found the layout good.
    unsafe {
        let layout = Layout::from_size_align_unchecked(bytes, bytes);
        std::alloc::dealloc(at.as_ptr(), layout);
    }
    true
}

/// Gives no pages back.
///
/// # Safety
///
/// None.
pub(super) unsafe fn discard(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// Larger than any piece of memory.
pub(super) fn page() -> usize {
    usize::MAX
}
