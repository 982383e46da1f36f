//! Files and segments as the engine counts them.

use std::alloc::{Layout, handle_alloc_error};

use samara_mm::Counted;

/// Puts `value` on the heap. This program ends where there is no memory, as it does with the standard library's boxes.
pub(crate) fn counted<T>(value: T) -> Counted<T> {
    Counted::try_new(value).unwrap_or_else(|_| handle_alloc_error(Layout::new::<T>()))
}
