//! Notices: events that deserve a line in the log but are no errors.

use core::fmt;

use crate::Kind;

/// An event for the boot log. `Display` formats the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// No mirrored memory satisfied a request. It is tried again with any memory.
    NoMirroredMemory {
        /// The size of the request in bytes.
        size: u64,
    },
    /// An allocation requested alignment 0. The cache line size is used.
    ZeroAlignment,
    /// An array of regions has moved to memory that it allocated.
    ArrayGrown {
        /// The kind of the array.
        kind: Kind,
        /// The number of regions that it can hold now.
        capacity: usize,
        /// Its physical address.
        base: u64,
        /// The number of bytes reserved for it.
        size: u64,
    },
    /// [`cap_memory_range`](crate::Memblock::cap_memory_range) was called before any memory was
    /// added.
    NoMemoryYet,
    /// More memory than the threshold belongs to no node.
    NoNodeCoverage {
        /// The number of bytes that belong to no node.
        lost: u64,
        /// The total number of bytes of memory.
        total: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Notice::NoMirroredMemory { size } => write!(
                f,
                "memblock: could not allocate {size:#x} bytes of mirrored memory"
            ),
            Notice::ZeroAlignment => {
                f.write_str("memblock: alignment 0 requested, using the cache line size")
            }
            Notice::ArrayGrown {
                kind,
                capacity,
                base,
                size,
            } => {
                write!(
                    f,
                    "memblock: {kind} array now holds {capacity} regions, at [{base:#x}-{:#x}]",
                    base + (size - 1)
                )
            }
            Notice::NoMemoryYet => f.write_str("memblock: no memory registered yet"),
            Notice::NoNodeCoverage { lost, total } => {
                write!(
                    f,
                    "memblock: no node coverage for {} MiB of {} MiB of memory",
                    lost >> 20,
                    total >> 20
                )
            }
        }
    }
}
