//! A countdown to a panic: what values and closures call, and what lets one of these calls panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// Calls that are still quiet.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Panics, if it is time. Once only: a second panic while the first unwinds would end the program, as documented.
pub fn tick() {
    match LEFT.get() {
        0 if !std::thread::panicking() => {
            LEFT.set(usize::MAX);
            // Without a message: there are thousands.
            resume_unwind(Box::new("as planned"));
        }
        usize::MAX | 0 => {}
        left => LEFT.set(left - 1),
    }
}

/// Returns the result of `go` when the first `quiet` calls of [`tick`] return and the next one
/// panics, or `None` if there was a next one.
pub fn panicking_after<T>(quiet: usize, go: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(quiet);
    let done = catch_unwind(AssertUnwindSafe(go)).ok();
    LEFT.set(usize::MAX);
    done
}

/// Returns `true` if `go` finished without the panic.
pub fn survives(quiet: usize, go: impl FnOnce()) -> bool {
    panicking_after(quiet, go).is_some()
}
