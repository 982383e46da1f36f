//! A memory-related system call as data: what tracing, replaying and fuzzing pass around.
//!
//! Arguments are raw, exactly as the program gave them; [`AddressSpace::perform`](crate::AddressSpace::perform)
//! validates them in the order in which Linux does.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use crate::file::{File, FileArg, FileKind};
use crate::flags::PAGE_SIZE;
use crate::heap::Counted;

/// One system call of the `mmap` family. Lengths and offsets are in bytes unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "fields are named after the parameters in each call's manual page"
)]
pub enum Call {
    Mmap {
        addr: u64,
        len: u64,
        prot: u64,
        flags: u64,
        file: FileArg,
        offset: u64,
    },
    Munmap {
        addr: u64,
        len: u64,
    },
    /// `mprotect`, or `pkey_mprotect` with a key other than -1.
    Mprotect {
        addr: u64,
        len: u64,
        prot: u64,
        pkey: i32,
    },
    Mremap {
        old_addr: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new_addr: u64,
    },
    Brk {
        addr: u64,
    },
    Madvise {
        addr: u64,
        len: u64,
        advice: i32,
    },
    /// `process_madvise` for the process itself: `ranges` are addresses and lengths.
    ProcessMadvise {
        ranges: Box<[(u64, u64)]>,
        advice: i32,
        flags: u64,
    },
    /// `mlock` (flags 0) or `mlock2`.
    Mlock {
        addr: u64,
        len: u64,
        flags: u64,
    },
    Munlock {
        addr: u64,
        len: u64,
    },
    Mlockall {
        flags: u64,
    },
    Munlockall,
    Msync {
        addr: u64,
        len: u64,
        flags: u64,
    },
    Mincore {
        addr: u64,
        len: u64,
    },
    Mseal {
        addr: u64,
        len: u64,
        flags: u64,
    },
    RemapFilePages {
        addr: u64,
        len: u64,
        prot: u64,
        pgoff: u64,
        flags: u64,
    },
    /// `segment` is `None` when the identifier names nothing that the caller may attach.
    Shmat {
        segment: Option<Counted<ShmSegment>>,
        addr: u64,
        flags: u64,
    },
    Shmdt {
        addr: u64,
    },
    /// `prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, …)`; `None` clears the name.
    SetVmaName {
        addr: u64,
        len: u64,
        name: Option<Box<str>>,
    },
    Mbind {
        addr: u64,
        len: u64,
        mode: u64,
        nodes: u64,
        flags: u64,
    },
    SetMempolicyHomeNode {
        addr: u64,
        len: u64,
        home: u64,
        flags: u64,
    },
    PkeyAlloc {
        flags: u64,
        rights: u64,
    },
    PkeyFree {
        pkey: i32,
    },
    /// `prctl(PR_SET_MDWE, bits, 0, 0, 0)`.
    SetMdwe {
        bits: u64,
    },
    /// `prctl(PR_SET_MEMORY_MERGE, on, 0, 0, 0)`.
    SetMemoryMerge {
        on: u64,
    },
    /// `UFFDIO_REGISTER` (`ioctl_userfaultfd(2)`). `context` numbers the userfaultfd, which has `UFFD_FEATURE_WP_ASYNC` if it is `asynchronous`.
    UffdRegister {
        context: NonZeroU32,
        asynchronous: bool,
        addr: u64,
        len: u64,
        mode: u64,
    },
    /// `UFFDIO_UNREGISTER`.
    UffdUnregister {
        context: NonZeroU32,
        asynchronous: bool,
        addr: u64,
        len: u64,
    },
    /// The last descriptor of a userfaultfd was closed: its ranges are no longer registered.
    UffdClose {
        context: NonZeroU32,
    },
    /// The layout that `prctl(PR_SET_MM, …)` asks for (`PR_SET_MM(2const)`). Linux checks it as a whole.
    SetMm {
        start_brk: u64,
        brk: u64,
        data_size: u64,
        stack_top: u64,
    },
}

impl Call {
    /// Returns the range of addresses on which the call acts: its first address and its length in
    /// bytes, both as the program passed them. They need not be multiples of the page size, and
    /// their sum may exceed the address space.
    ///
    /// `None` for calls that choose a place or name two (`mmap`, `mremap`, `shmat`), that name one end (`brk`, `shmdt`), that name several ranges
    /// (`process_madvise`), and that name none. O(1).
    ///
    /// ```
    /// use samara_mm::Call;
    ///
    /// let call = Call::Madvise { addr: 0x1000, len: 0x800, advice: 4 };
    /// assert_eq!(call.range(), Some((0x1000, 0x800)));
    /// assert_eq!(Call::Brk { addr: 0x1000 }.range(), None);
    /// ```
    #[inline]
    #[must_use]
    pub const fn range(&self) -> Option<(u64, u64)> {
        match *self {
            Call::Munmap { addr, len }
            | Call::Mprotect { addr, len, .. }
            | Call::Madvise { addr, len, .. }
            | Call::Mlock { addr, len, .. }
            | Call::Munlock { addr, len }
            | Call::Msync { addr, len, .. }
            | Call::Mincore { addr, len }
            | Call::Mseal { addr, len, .. }
            | Call::RemapFilePages { addr, len, .. }
            | Call::SetVmaName { addr, len, .. }
            | Call::Mbind { addr, len, .. }
            | Call::SetMempolicyHomeNode { addr, len, .. }
            | Call::UffdRegister { addr, len, .. }
            | Call::UffdUnregister { addr, len, .. } => Some((addr, len)),
            Call::Mmap { .. }
            | Call::Mremap { .. }
            | Call::Brk { .. }
            | Call::ProcessMadvise { .. }
            | Call::Mlockall { .. }
            | Call::Munlockall
            | Call::Shmat { .. }
            | Call::Shmdt { .. }
            | Call::PkeyAlloc { .. }
            | Call::PkeyFree { .. }
            | Call::SetMdwe { .. }
            | Call::SetMemoryMerge { .. }
            | Call::UffdClose { .. }
            | Call::SetMm { .. } => None,
        }
    }
}

/// A System V shared memory segment. One of huge pages (`SHM_HUGETLB`) has a [file](Self::file) of [`FileKind::HugeTlb`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShmSegment {
    /// The object (name as maps prints it, for example `/SYSV00000000 (deleted)`).
    pub file: Counted<File>,
    /// Size in bytes as given to `shmget`.
    pub size: u64,
}

impl ShmSegment {
    /// Returns its length in bytes: whole pages, which are those of the pool for a segment of huge pages. `None` if that is too long.
    pub(crate) fn len(&self) -> Option<u64> {
        let page = match self.file.kind {
            FileKind::HugeTlb(bytes) => bytes,
            _ => PAGE_SIZE,
        };
        self.size.checked_next_multiple_of(page)
    }

    /// Returns its length in pages of 4 KiB.
    pub(crate) fn pages(&self) -> u64 {
        self.len().unwrap_or(u64::MAX) / PAGE_SIZE
    }
}
