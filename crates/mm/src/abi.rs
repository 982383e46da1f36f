//! The constants of the system calls, as numbers and as types: one table for both.
//!
//! [`Call`](crate::Call) takes what the program gave, in numbers: `PROT_READ | PROT_WRITE`. The methods that
//! [`AddressSpace`](crate::AddressSpace) has for programs of one's own take types: `Prot::READ | Prot::WRITE`. The values are
//! those of Linux on x86-64, from the manual pages of the calls.

use bitflags::bitflags;

/// Flags: a type, and the numbers by the names that C has for them.
macro_rules! flags {
    ($(#[$outer:meta])* $type:ident { $($short:ident, $long:ident = $value:literal, $text:literal;)* }) => {
        bitflags! {
            $(#[$outer])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $type: u64 {
                $(#[doc = $text] const $short = $value;)*
            }
        }
        $(#[doc = $text] pub const $long: u64 = $value;)*
    };
}

flags! {
    /// The permitted accesses to pages: `PROT_*` (`mmap(2)`, `mprotect(2)`). The empty set is
    /// `PROT_NONE`.
    Prot {
        READ, PROT_READ = 1, "Pages may be read.";
        WRITE, PROT_WRITE = 2, "Pages may be written.";
        EXEC, PROT_EXEC = 4, "Pages may be executed.";
        SEM, PROT_SEM = 8, "Pages may hold semaphores; changes nothing.";
        GROWSDOWN, PROT_GROWSDOWN = 0x0100_0000, "The change begins where the area does that grows downwards.";
        GROWSUP, PROT_GROWSUP = 0x0200_0000, "The change ends where the area does that grows upwards; there is none.";
    }
}

/// Pages may not be accessed.
pub const PROT_NONE: u64 = 0;

impl Prot {
    /// Pages may not be accessed (`PROT_NONE`): the same as [`empty`](Self::empty).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let start = space.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ))?;
    /// space.mprotect(start, 0x1000, Prot::NONE)?;
    /// assert_eq!(space.area_count(), 2);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub const NONE: Self = Self::empty();
}

/// The bits of a protection that VMAs keep.
pub(crate) const PROT_ACCESS: u64 = PROT_READ | PROT_WRITE | PROT_EXEC;

flags! {
    /// Flags of a mapping: `MAP_*` (`mmap(2)`).
    MapFlags {
        SHARED, MAP_SHARED = 1, "Writes go to the object, and others see them.";
        PRIVATE, MAP_PRIVATE = 2, "Writes go to private copies.";
        SHARED_VALIDATE, MAP_SHARED_VALIDATE = 3, "As `SHARED`; flags that are not known are refused.";
        DROPPABLE, MAP_DROPPABLE = 8, "Private memory that the kernel may drop under pressure.";
        FIXED, MAP_FIXED = 0x10, "At this very address, over whatever is there.";
        ANONYMOUS, MAP_ANONYMOUS = 0x20, "No file: zeroed memory.";
        BIT32, MAP_32BIT = 0x40, "In the first 2 GiB.";
        ABOVE4G, MAP_ABOVE4G = 0x80, "Not in the first 4 GiB.";
        GROWSDOWN, MAP_GROWSDOWN = 0x100, "A stack, which grows downwards.";
        DENYWRITE, MAP_DENYWRITE = 0x800, "Ignored.";
        EXECUTABLE, MAP_EXECUTABLE = 0x1000, "Ignored.";
        LOCKED, MAP_LOCKED = 0x2000, "Locked, as `mlock(2)` does.";
        NORESERVE, MAP_NORESERVE = 0x4000, "Not charged to the commit limit.";
        POPULATE, MAP_POPULATE = 0x8000, "Faulted in at once.";
        NONBLOCK, MAP_NONBLOCK = 0x1_0000, "With `POPULATE`: not faulted in after all.";
        STACK, MAP_STACK = 0x2_0000, "A stack of a thread: without huge pages.";
        HUGETLB, MAP_HUGETLB = 0x4_0000, "From the pool of huge pages.";
        SYNC, MAP_SYNC = 0x8_0000, "Synchronous faults, with files in persistent memory.";
        FIXED_NOREPLACE, MAP_FIXED_NOREPLACE = 0x10_0000, "At this very address, if nothing is there.";
        UNINITIALIZED, MAP_UNINITIALIZED = 0x400_0000, "Ignored.";
    }
}

/// The bits of [`MAP_SHARED`], [`MAP_PRIVATE`] and their like.
pub const MAP_TYPE: u64 = 0xf;
/// The lowest bit of the size of huge pages, which is a binary logarithm.
pub const MAP_HUGE_SHIFT: u32 = 26;
/// The bits of that number, when shifted down.
pub const MAP_HUGE_MASK: u64 = 0x3f;

flags! {
    /// Flags of a move: `MREMAP_*` (`mremap(2)`).
    RemapFlags {
        MAYMOVE, MREMAP_MAYMOVE = 1, "To another place, if there is no room.";
        FIXED, MREMAP_FIXED = 2, "To this very address, over whatever is there.";
        DONTUNMAP, MREMAP_DONTUNMAP = 4, "The old place stays mapped, without its pages.";
    }
}

flags! {
    /// Flags of locking: `MLOCK_*` (`mlock2(2)`).
    LockFlags {
        ONFAULT, MLOCK_ONFAULT = 1, "Pages are locked when they are faulted in.";
    }
}

flags! {
    /// The memory that is locked: `MCL_*` (`mlockall(2)`).
    LockAllFlags {
        CURRENT, MCL_CURRENT = 1, "All that is mapped.";
        FUTURE, MCL_FUTURE = 2, "All that will be mapped.";
        ONFAULT, MCL_ONFAULT = 4, "Pages are locked when they are faulted in.";
    }
}

flags! {
    /// Flags of writing back: `MS_*` (`msync(2)`).
    SyncFlags {
        ASYNC, MS_ASYNC = 1, "Soon.";
        INVALIDATE, MS_INVALIDATE = 2, "Other mappings see it; fails with locked pages.";
        SYNC, MS_SYNC = 4, "Before the call returns.";
    }
}

flags! {
    /// Flags of attaching a segment: `SHM_*` (`shmat(2)`).
    AttachFlags {
        RDONLY, SHM_RDONLY = 0o10000, "Only for reading.";
        RND, SHM_RND = 0o20000, "At the address rounded down.";
        REMAP, SHM_REMAP = 0o40000, "Over whatever is there.";
        EXEC, SHM_EXEC = 0o100_000, "Pages may be executed.";
    }
}

/// Advice about the use of memory: `MADV_*` (`madvise(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Advice(pub i32);

/// Defines constants of [`Advice`], the numbers under C's names, and the enumeration of both.
macro_rules! advice {
    ($($short:ident, $known:ident, $long:ident = $value:literal, $text:literal;)*) => {
        impl Advice {
            $(#[doc = $text] pub const $short: Advice = Advice($value);)*

            /// Returns C's name of the advice, or `None` for a number that the engine does not know.
            ///
            /// ```
            /// use samara_mm::Advice;
            ///
            /// assert_eq!(Advice(4).name(), Some("MADV_DONTNEED"));
            /// assert_eq!(Advice(99).name(), None);
            /// ```
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($long)),)*
                    _ => None,
                }
            }
        }
        $(#[doc = $text] pub const $long: i32 = $value;)*

        /// The advice that the engine knows, whatever the kernel that it imitates: so that matches over it are exhaustive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum KnownAdvice {
            $(#[doc = $text] $known,)*
        }

        impl KnownAdvice {
            /// Returns the advice with this number, and `None` if there is none.
            pub(crate) const fn new(advice: i32) -> Option<Self> {
                match advice {
                    $($value => Some(Self::$known),)*
                    _ => None,
                }
            }
        }
    };
}

advice! {
    NORMAL, Normal, MADV_NORMAL = 0, "No particular use.";
    RANDOM, Random, MADV_RANDOM = 1, "Pages will be used in random order.";
    SEQUENTIAL, Sequential, MADV_SEQUENTIAL = 2, "Pages will be used one after the other.";
    WILLNEED, WillNeed, MADV_WILLNEED = 3, "Pages will be used soon.";
    DONTNEED, DontNeed, MADV_DONTNEED = 4, "Pages may go; private ones are zero or the file's afterwards.";
    FREE, Free, MADV_FREE = 8, "Private pages may go, unless they are written again.";
    REMOVE, Remove, MADV_REMOVE = 9, "Pages go, and what is behind them in the object.";
    DONTFORK, DontFork, MADV_DONTFORK = 10, "A child does not inherit the range.";
    DOFORK, DoFork, MADV_DOFORK = 11, "A child inherits it.";
    MERGEABLE, Mergeable, MADV_MERGEABLE = 12, "Pages with equal contents may become one.";
    UNMERGEABLE, Unmergeable, MADV_UNMERGEABLE = 13, "They may not.";
    HUGEPAGE, HugePage, MADV_HUGEPAGE = 14, "Huge pages are welcome.";
    NOHUGEPAGE, NoHugePage, MADV_NOHUGEPAGE = 15, "They are not.";
    DONTDUMP, DontDump, MADV_DONTDUMP = 16, "Core dumps leave the range out.";
    DODUMP, DoDump, MADV_DODUMP = 17, "Core dumps have it.";
    WIPEONFORK, WipeOnFork, MADV_WIPEONFORK = 18, "A child gets zeroed memory there.";
    KEEPONFORK, KeepOnFork, MADV_KEEPONFORK = 19, "A child gets a copy.";
    COLD, Cold, MADV_COLD = 20, "Pages are not likely to be used soon.";
    PAGEOUT, PageOut, MADV_PAGEOUT = 21, "Pages go to where they can be had back from.";
    POPULATE_READ, PopulateRead, MADV_POPULATE_READ = 22, "Faulted in at once, for reading.";
    POPULATE_WRITE, PopulateWrite, MADV_POPULATE_WRITE = 23, "Faulted in at once, for writing.";
    DONTNEED_LOCKED, DontNeedLocked, MADV_DONTNEED_LOCKED = 24, "As `DONTNEED`, locked pages too.";
    COLLAPSE, Collapse, MADV_COLLAPSE = 25, "Huge pages take the place of small ones now.";
    GUARD_INSTALL, GuardInstall, MADV_GUARD_INSTALL = 102, "Accesses fail from now on.";
    GUARD_REMOVE, GuardRemove, MADV_GUARD_REMOVE = 103, "They do so no longer.";
}
