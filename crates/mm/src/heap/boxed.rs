//! Allocation that can fail, where the standard types cannot: boxes and strings.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use alloc::string::String;
use core::mem::MaybeUninit;

use crate::errno::Errno;

/// Puts `value` on the heap.
///
/// # Errors
/// `ENOMEM` when the allocator has nothing; the value is dropped.
pub fn try_box<T>(value: T) -> Result<Box<T>, Errno> {
    try_room().map(|room| Box::write(room, value))
}

/// Allocates memory for a value.
///
/// # Errors
/// `ENOMEM` when the allocator has nothing.
#[inline(always)]
pub(crate) fn try_room<T>() -> Result<Box<MaybeUninit<T>>, Errno> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // A box of a type without size does not allocate.
        return Ok(Box::new(MaybeUninit::uninit()));
    }
    // SAFETY: the layout's size is not zero, as was just checked.
    let memory = unsafe { alloc(layout) }.cast::<MaybeUninit<T>>();
    if memory.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: `memory` is not null, is ours alone, and was allocated by the global allocator with the layout of `T`, which is how `Box` allocates and frees.
    Ok(unsafe { Box::from_raw(memory) })
}

/// Copies `text` to the heap.
///
/// # Errors
/// `ENOMEM` when the allocator has nothing.
pub fn try_str(text: &str) -> Result<Box<str>, Errno> {
    let mut copy = String::new();
    copy.try_reserve_exact(text.len())
        .map_err(|_| Errno::ENOMEM)?;
    copy.push_str(text);
    Ok(copy.into_boxed_str())
}
