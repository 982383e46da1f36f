//! The reason for a stop: the data of `SECCOMP_RET_TRACE`, which the tracer reads back.
//!
//! If two filters both want a tracer, the one that was added last counts, and a program's own
//! filter may use any data. So the data here are chosen at random for each trace.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// No mark of this tracer: a filter of the program's own has stopped the call.
pub(crate) const NONE: u32 = 0;
/// A native 64-bit call.
pub(crate) const NATIVE: u32 = 1;
/// A call of i386: by a program with 32-bit addresses, or by `int 0x80`.
pub(crate) const I386: u32 = 2;
/// A call of the x32 table.
pub(crate) const X32: u32 = 3;

/// Returns the data that stand for a mark.
pub(super) fn said(mark: u32) -> u32 {
    lot() | mark
}

/// Returns the mark that data stand for, if they stand for one.
pub(crate) fn read(data: u32) -> Option<u32> {
    let mark = data ^ lot();
    matches!(mark, NATIVE | I386 | X32).then_some(mark)
}

/// Returns 16 random bits whose lowest two are 0. The highest is 1, because programs prefer small
/// numbers.
fn lot() -> u32 {
    static LOT: OnceLock<u32> = OnceLock::new();
    *LOT.get_or_init(|| 0x8000 | RandomState::new().build_hasher().finish() as u32 & 0x7ffc)
}
