//! Going on after a panic.
//!
//! Dropping a value may panic, and so may a caller's closure that receives one. Whatever the call
//! still had to hand over, drop or give back, it then does while the panic unwinds, as the standard
//! library's collections do: nothing leaks. A second panic during the unwinding aborts the program.

use core::mem::forget;
use core::ops::Range;

/// Calls `step` for each of the numbers; if that panics, for the others while the panic unwinds.
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

/// Those that are left. Dropped only if `step` has panicked.
struct Rest<'s, F: FnMut(usize)> {
    numbers: Range<usize>,
    step: &'s mut F,
}

impl<F: FnMut(usize)> Drop for Rest<'_, F> {
    // In line: the numbers are in registers then.
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

/// Does something when it is dropped: at the end, or when a panic unwinds.
pub(crate) struct Finally<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Finally<F> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.0)();
    }
}
