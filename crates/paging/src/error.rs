//! Why a call did nothing.

use core::fmt;

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The allocator refused a frame.
    NoMemory,
    /// Something is mapped where the call would map.
    Exists,
    /// There is no page, or not the one that was expected.
    NotMapped,
    /// These tables do not map the address: it is the kernel's half and they are a process's, or they are a kernel's and it is not in the ranges that
    /// they were made for.
    OutOfRange,
    /// A start, an end or a frame is no multiple of the page, or not an address of this format.
    Misaligned,
    /// A frame would be mapped more than 1,044,479 times, have more than 1,023 references, or a table more than 524,287 users; or more frames
    /// than can be counted.
    TooMany,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "no frame is free",
            Self::Exists => "something is mapped there",
            Self::NotMapped => "no such page is mapped there",
            Self::OutOfRange => "other tables map this address",
            Self::Misaligned => "not an address of a page in this format",
            Self::TooMany => "the count of a frame or a table is at its limit",
        })
    }
}

impl core::error::Error for Error {}
