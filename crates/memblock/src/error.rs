//! The error type.

use core::fmt;

/// The reason for which a call failed. The call has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The array of regions is full and may not grow: resizing is not allowed yet, memory is not
    /// accessible, or no free memory can hold a larger array. Linux's `-ENOMEM`.
    ArrayFull,
    /// No free memory satisfies the request.
    NoMemory,
    /// The alignment is not a power of two.
    Alignment,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::ArrayFull => "the array of regions is full and cannot grow",
            Error::NoMemory => "no free memory satisfies the request",
            Error::Alignment => "the alignment is not a power of two",
        })
    }
}

impl core::error::Error for Error {}
