//! Counting the bytes that a structure holds, the same way for rivals and for ours.
//!
//! A binary makes [`Counting`] its global allocator. Outside of [`held`] it costs a load and a branch that is always
//! predicted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, which counts bytes while it is asked to.
pub struct Counting;

fn note(bytes: isize) {
    if COUNTS.load(Ordering::Relaxed) {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: everything is passed on to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Returns the result of `make`, and the bytes that it allocated and did not free: the memory of a
/// structure, if that is all
/// that `make` leaves. Zero unless [`Counting`] is the global allocator. For a program of one thread at that moment.
pub fn held<T>(make: impl FnOnce() -> T) -> (T, usize) {
    BYTES.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let made = make();
    COUNTS.store(false, Ordering::Relaxed);
    let bytes = BYTES.load(Ordering::Relaxed);
    (made, usize::try_from(bytes).unwrap_or_default())
}

/// Lets the process keep all memory that it gets: else, large maps would be measured by how fast the system takes pages and
/// gives them anew, which depends on what was freed before.
pub fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets two parameters of the C library's allocator; there is one thread yet.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
}
