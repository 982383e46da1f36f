//! Why a difference decides nothing: what the engine does not know, and cannot learn from what the kernel shows.
//!
//! `docs/limits.md` of the command line lists the same, with what is compared all the same.

/// A reason for which a difference decides nothing: something that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The order of the first writes, or whether there were any.
    Writes,
    /// The argument that the kernel read, which another thread or process could write.
    Argument,
    /// Advice that may have been given through a ring of `io_uring`.
    Advice,
    /// The place that the driver of a BPF arena chooses. It refuses to cut it, too.
    Arena,
    /// The wish of a FUSE file's server to have it uncached (`FOPEN_DIRECT_IO`), and the file's length.
    Served,
    /// The open file through which an area was mapped.
    Opened,
    /// The memory that the kernel had left for itself.
    KernelMemory,
    /// The value of `vm.max_map_count` during the call.
    MaxMapCount,
    /// The seals that a file in memory has got since it was mapped.
    Sealed,
}

/// All of them; a record has their numbers.
const ALL: [Unknown; 9] = [
    Unknown::Writes,
    Unknown::Argument,
    Unknown::Advice,
    Unknown::Arena,
    Unknown::Served,
    Unknown::Opened,
    Unknown::KernelMemory,
    Unknown::MaxMapCount,
    Unknown::Sealed,
];

impl Unknown {
    /// Returns the number that stands for it in a record.
    pub fn number(self) -> u64 {
        ALL.iter().position(|known| *known == self).unwrap_or(0) as u64
    }

    /// Returns the reason that a number stands for.
    pub fn of_number(number: u64) -> Option<Self> {
        ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the reason in words, after "undecided:".
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Unknown::Writes => "it could not be seen what was written first, or at all",
            Unknown::Argument => {
                "another thread or process could write what the call points to while the kernel read it"
            }
            Unknown::Advice => "advice may have been given through a ring of io_uring",
            Unknown::Arena => "the driver of a BPF arena chooses its place and lets nobody cut it",
            Unknown::Served => "the server of a FUSE file may want it uncached",
            Unknown::Opened => "it is not known through which open file an area was mapped",
            Unknown::KernelMemory => "the kernel may have had no memory left for itself",
            Unknown::MaxMapCount => "vm.max_map_count has been changed",
            Unknown::Sealed => "the file in memory was sealed after it had been mapped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_reasons() {
        for (number, unknown) in (0..).zip(ALL) {
            assert_eq!(unknown.number(), number);
            assert_eq!(Unknown::of_number(number), Some(unknown));
        }
        assert_eq!(Unknown::of_number(ALL.len() as u64), None);
    }
}
