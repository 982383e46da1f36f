//! An allocator whose blocks a test may look at, and harm.

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;

use maple_tree::alloc::{Global, NodeAlloc};

/// The size and alignment of a node's memory.
const LAYOUT: Layout = match Layout::from_size_align(256, 256) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// The blocks that are allocated.
#[derive(Default)]
pub struct Blocks(RefCell<Vec<NonNull<u8>>>);

impl Blocks {
    pub fn live(&self) -> Vec<NonNull<u8>> {
        self.0.borrow().clone()
    }

    /// Frees the blocks that no other code will free.
    ///
    /// # Safety
    ///
    /// No code uses a block any more.
    pub unsafe fn free_all(&self) {
        for block in self.live() {
            // SAFETY: it came from there, for a node; the caller's promise.
            unsafe { self.deallocate(block, LAYOUT) };
        }
    }
}

// SAFETY: everything is passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Blocks {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = Global.allocate(layout)?;
        self.0.borrow_mut().push(block);
        Some(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.borrow_mut().retain(|&other| other != block);
        // SAFETY: the caller's promise is passed on.
        unsafe { Global.deallocate(block, layout) }
    }
}
