//! Boxes where there may be no memory.

use alloc::alloc::alloc;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::mem::MaybeUninit;

/// Room for a `T`, or `None` if there is no memory.
pub fn try_box_uninit<T>() -> Option<Box<MaybeUninit<T>>> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Some(Box::new_uninit());
    }
    // SAFETY: the layout is not of size zero.
    let block = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
    // SAFETY: the block is fresh, and has the layout of a `T`: a box of one is made like this.
    (!block.is_null()).then(|| unsafe { Box::from_raw(block) })
}
