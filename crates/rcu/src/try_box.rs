//! Boxes whose allocation may fail.

use alloc::alloc::alloc;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::mem::MaybeUninit;

/// Allocates an uninitialised box for a `T`, or returns `None` if there is no memory.
pub fn try_box_uninit<T>() -> Option<Box<MaybeUninit<T>>> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Some(Box::new_uninit());
    }
    // SAFETY: the layout is not of size zero.
    let block = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
    // SAFETY: the block is fresh and has the layout of a `T`, as memory of a box must.
    (!block.is_null()).then(|| unsafe { Box::from_raw(block) })
}
