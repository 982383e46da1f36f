//! What memblock says when something deserves a line in the log but is no error.

use core::fmt;

use crate::Kind;

/// Something worth a line in the boot log. `Display` gives the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// There was no mirrored memory for a request of this many bytes; it is tried again with any memory.
    NoMirroredMemory {
        /// Size of the request.
        size: u64,
    },
    /// An allocation asked for alignment 0; the cache line size is used.
    ZeroAlignment,
    /// An array of regions has moved to memory that it allocated.
    ArrayGrown {
        /// Which array.
        kind: Kind,
        /// How many regions it can hold now.
        capacity: usize,
        /// Where it is.
        base: u64,
        /// Bytes reserved for it.
        size: u64,
    },
    /// [`cap_memory_range`](crate::Memblock::cap_memory_range) was called before any memory was known.
    NoMemoryYet,
    /// More memory belongs to no node than was to be accepted.
    NoNodeCoverage {
        /// Bytes that belong to no node.
        lost: u64,
        /// Bytes of memory in all.
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
                f.write_str("memblock: alignment 0 asked for, cache line size used")
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
