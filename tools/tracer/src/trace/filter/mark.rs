//! The reason of a stop: the data of `SECCOMP_RET_TRACE`, which the tracer reads back. If two
//! filters want a tracer, the one that was added last decides, and a program's filter may return
//! any data. So the data here is random for each trace.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// None of this tracer's: a filter of the program's own has stopped the call.
pub(crate) const NONE: u32 = 0;
/// A native 64-bit call.
pub(crate) const NATIVE: u32 = 1;
/// A call of i386: of a program with 32-bit addresses, or by `int 0x80`.
pub(crate) const I386: u32 = 2;
/// A call of the x32 table.
pub(crate) const X32: u32 = 3;

/// The data that say a mark.
pub(super) fn said(mark: u32) -> u32 {
    lot() | mark
}

/// The mark that data say, if they say one.
pub(crate) fn read(data: u32) -> Option<u32> {
    let mark = data ^ lot();
    matches!(mark, NATIVE | I386 | X32).then_some(mark)
}

/// 16 bits of which the lowest two are free. Programs prefer small numbers, among which it is not.
fn lot() -> u32 {
    static LOT: OnceLock<u32> = OnceLock::new();
    *LOT.get_or_init(|| 0x8000 | RandomState::new().build_hasher().finish() as u32 & 0x7ffc)
}
