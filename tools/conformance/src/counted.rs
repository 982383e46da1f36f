//! Files and segments as the engine counts them.

use std::alloc::{Layout, handle_alloc_error};

use samara_mm::Counted;

/// Puts `value` on the heap. Where there is no memory the program ends, as with the standard library's
/// boxes.
pub fn counted<T>(value: T) -> Counted<T> {
    Counted::try_new(value).unwrap_or_else(|_| handle_alloc_error(Layout::new::<T>()))
}
