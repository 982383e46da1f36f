//! An allocator of which every call takes the same instructions on every machine: a bump pointer, and a free list for
//! each power of two.
//!
//! The C library's would bring its version, its tunables and the addresses that it got into the counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Bytes asked of the system at once.
const CHUNK: usize = 256 << 20;
/// Free lists for blocks of 2^0 to 2^31 bytes.
const CLASSES: usize = 32;

/// For a program of one thread.
pub(crate) struct Arena(UnsafeCell<State>);

struct State {
    next: *mut u8,
    left: usize,
    free: [*mut u8; CLASSES],
}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(State {
            next: null_mut(),
            left: 0,
            free: [null_mut(); CLASSES],
        }))
    }
}

// SAFETY: the program has one thread.
unsafe impl Sync for Arena {}

// SAFETY: blocks come from `System`, whole and aligned to their rounded size, and each is handed out once until it comes back.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout
            .size()
            .max(layout.align())
            .max(16)
            .next_power_of_two();
        let class = size.trailing_zeros() as usize;
        // SAFETY: one thread, and no call within another: `System` does not call back.
        let state = unsafe { &mut *self.0.get() };
        let Some(&head) = state.free.get(class) else {
            return null_mut();
        };
        if !head.is_null() {
            // SAFETY: a block on the list is free, and holds the next one's address in its first word.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        // Small blocks are aligned to their size, large ones to a page.
        let align = size.min(4096);
        let mut skip = state.next.align_offset(align);
        if skip.saturating_add(size) > state.left {
            let bytes = CHUNK.max(size + align);
            let Ok(chunk) = Layout::from_size_align(bytes, 4096) else {
                return null_mut();
            };
            // SAFETY: the chunk's size is not zero.
            state.next = unsafe { System.alloc(chunk) };
            state.left = if state.next.is_null() { 0 } else { bytes };
            if state.left < size {
                return null_mut();
            }
            skip = 0;
        }
        // SAFETY: `skip + size` bytes are left of the chunk.
        let block = unsafe { state.next.add(skip) };
        // SAFETY: as above.
        state.next = unsafe { block.add(size) };
        state.left -= skip + size;
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = layout
            .size()
            .max(layout.align())
            .max(16)
            .next_power_of_two();
        // SAFETY: as in `alloc`.
        let state = unsafe { &mut *self.0.get() };
        let class = size.trailing_zeros() as usize;
        // SAFETY: the block is free from now on, and has room for an address.
        unsafe { block.cast::<*mut u8>().write(state.free[class]) };
        state.free[class] = block;
    }
}
