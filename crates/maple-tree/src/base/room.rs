//! Boxes where there may be no memory.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use std_alloc::alloc::alloc;
use std_alloc::boxed::Box;

/// Room for a `T`, or `None` if there is no memory.
pub(crate) fn room<T>() -> Option<Box<MaybeUninit<T>>> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Some(Box::new_uninit());
    }
    // SAFETY: the layout is not of size zero.
    let block = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
    // SAFETY: the block is fresh, and has the layout of a `T`: a box of one is made like this.
    (!block.is_null()).then(|| unsafe { Box::from_raw(block) })
}
