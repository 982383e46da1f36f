//! A heap that refuses an allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Refuses one allocation of this thread when its countdown reaches 0.
struct Countdown;

thread_local! {
    /// Allocations of this thread that succeed before one is refused.
    pub(crate) static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

// SAFETY: everything is passed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Countdown {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match LEFT.get() {
            Some(0) => {
                LEFT.set(None);
                return std::ptr::null_mut();
            }
            Some(left) => LEFT.set(Some(left - 1)),
            None => {}
        }
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Countdown = Countdown;

/// Runs `work` with all allocations granted: those of the test itself are not refused.
pub(crate) fn spared<R>(work: impl FnOnce() -> R) -> R {
    let left = LEFT.replace(None);
    let result = work();
    LEFT.set(left);
    result
}
