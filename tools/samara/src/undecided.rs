//! Why a difference decides nothing: what the engine does not know, and cannot learn from what the kernel shows.
//!
//! docs/limits.md lists the same, with what is compared all the same.

/// What is not known where engine and kernel differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// What was written first, or at all.
    Writes,
    /// What the kernel read of an argument that somebody else could write.
    Argument,
    /// Whether advice was given through a ring of `io_uring`.
    Advice,
    /// Where the driver of a BPF arena places it. It lets nobody cut it, either.
    Arena,
    /// Whether the server of a FUSE file wants it uncached (`FOPEN_DIRECT_IO`), and how long the file is.
    Served,
    /// Through which open file an area was mapped.
    Opened,
    /// Whether the kernel had memory left for itself.
    KernelMemory,
    /// What `vm.max_map_count` was during the call.
    MaxMapCount,
    /// Which seals a file in memory has got since it was mapped.
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
    pub(crate) fn number(self) -> u64 {
        ALL.iter().position(|known| *known == self).unwrap_or(0) as u64
    }

    /// Returns what a number stands for.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
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
