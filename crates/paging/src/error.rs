//! The error of a call that changed nothing.

use core::fmt;

/// The reason why a call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The allocator has no free frame.
    NoMemory,
    /// Something is mapped where the call would map.
    Exists,
    /// No page is mapped there, or another page than expected.
    NotMapped,
    /// These tables do not map the address. Either it is in the kernel's half and these are a
    /// process's tables, or these are a kernel's tables and the address is not in the ranges that
    /// they were created for.
    OutOfRange,
    /// A start, an end or a frame is not aligned to the page size, or an address is not canonical.
    Misaligned,
    /// A count is at its limit: 1,044,479 mappings or 1,023 references of a frame, or 524,287 users
    /// of a table. Or there are more frames than can be counted.
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
