//! Continuing after a panic.
//!
//! Dropping a value may panic, and so may a caller's closure that gets one. Whatever a call still
//! had to hand over, drop or return is then handled while the panic unwinds, as in the standard
//! library's collections: nothing leaks. A second panic during the unwinding ends the program.

use core::mem::forget;
use core::ops::Range;

/// Calls `step` with each of the numbers. If that panics, the others follow while the panic
/// unwinds.
#[inline(always)]
pub(crate) fn each(numbers: Range<usize>, mut step: impl FnMut(usize)) {
    let mut rest = Rest {
        numbers,
        step: &mut step,
    };
    while rest.numbers.start < rest.numbers.end {
        let number = rest.numbers.start;
        rest.numbers.start += 1;
        (rest.step)(number);
    }
    forget(rest);
}

/// The remaining numbers. Dropped only if `step` has panicked.
struct Rest<'s, F: FnMut(usize)> {
    numbers: Range<usize>,
    step: &'s mut F,
}

impl<F: FnMut(usize)> Drop for Rest<'_, F> {
    // Inlined: the numbers then stay in registers.
    #[inline(always)]
    fn drop(&mut self) {
        go_on(self.numbers.clone(), self.step);
    }
}

#[cold]
#[inline(never)]
fn go_on(numbers: Range<usize>, step: &mut impl FnMut(usize)) {
    numbers.for_each(step);
}

/// Calls the closure when it is dropped: at the end, or when a panic unwinds.
pub(crate) struct Finally<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Finally<F> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.0)();
    }
}
