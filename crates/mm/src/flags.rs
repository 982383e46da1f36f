//! Bits: the properties of an area.

#[cfg(feature = "paging")]
use core::ops::Range;

use bitflags::bitflags;

use crate::abi::PROT_ACCESS;

/// Bytes in a page.
pub const PAGE_SIZE: u64 = 4096;
/// Bytes in a huge page of the second level.
pub const PMD_SIZE: u64 = 2 << 20;
pub(crate) const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// Rounds up to a page; wraps to 0 near the end of the number range, as Linux does.
pub(crate) const fn page_align(n: u64) -> u64 {
    n.wrapping_add(PAGE_SIZE - 1) & PAGE_MASK
}

/// Returns the whole stretches of [`PMD_SIZE`] within `[start, end)`, if there is one. The last one
/// below the end of all numbers is none: its end is no number.
#[cfg(feature = "paging")]
pub(crate) fn whole_stretches(start: u64, end: u64) -> Option<Range<u64>> {
    let first = start.checked_next_multiple_of(PMD_SIZE)?;
    let last = end & !(PMD_SIZE - 1);
    (first < last).then_some(first..last)
}

bitflags! {
    /// Properties of an area, with Linux's meanings (`VmFlags:` in `proc_pid_smaps(5)`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct VmFlags: u64 {
        /// `rd`: readable.
        const READ = 1 << 0;
        /// `wr`: writable.
        const WRITE = 1 << 1;
        /// `ex`: executable.
        const EXEC = 1 << 2;
        /// `sh`: writes are seen by all who map the object.
        const SHARED = 1 << 3;
        /// `mr`: may be made readable.
        const MAYREAD = 1 << 4;
        /// `mw`: may be made writable.
        const MAYWRITE = 1 << 5;
        /// `me`: may be made executable.
        const MAYEXEC = 1 << 6;
        /// `ms`: mapped with `MAP_SHARED`; without [`SHARED`](Self::SHARED) when the descriptor is read-only.
        const MAYSHARE = 1 << 7;
        /// `gd`: grows downwards by faults.
        const GROWSDOWN = 1 << 8;
        /// `um`: userfaultfd handles missing pages.
        const UFFD_MISSING = 1 << 9;
        /// `pf`: page frames without page structures.
        const PFNMAP = 1 << 10;
        /// `gu`: guard markers may have been installed in it. It is kept apart from the other
        /// flags, because VMAs merge whatever theirs say. It appears only in lines of the map and
        /// of a seed.
        const GUARDED = 1 << 11;
        /// `uw`: userfaultfd handles write-protection faults.
        const UFFD_WP = 1 << 12;
        /// `lo`: locked in memory.
        const LOCKED = 1 << 13;
        /// `io`: device memory.
        const IO = 1 << 14;
        /// `sr`: will be read sequentially.
        const SEQ_READ = 1 << 15;
        /// `rr`: will be read at random.
        const RAND_READ = 1 << 16;
        /// `dc`: not copied by fork.
        const DONTCOPY = 1 << 17;
        /// `de`: cannot grow by mremap.
        const DONTEXPAND = 1 << 18;
        /// `lf`: pages are locked when they are faulted in.
        const LOCKONFAULT = 1 << 19;
        /// `ac`: counted against the commit limit.
        const ACCOUNT = 1 << 20;
        /// `nr`: swap space is not reserved.
        const NORESERVE = 1 << 21;
        /// `ht`: huge pages of hugetlbfs.
        const HUGETLB = 1 << 22;
        /// `sf`: synchronous page faults.
        const SYNC = 1 << 23;
        /// `ar`: meaning depends on the architecture.
        const ARCH_1 = 1 << 24;
        /// `wf`: zeroed in the child of a fork.
        const WIPEONFORK = 1 << 25;
        /// `dd`: left out of core dumps.
        const DONTDUMP = 1 << 26;
        /// `sd`: soft-dirty tracking; never looked at when areas merge.
        const SOFTDIRTY = 1 << 27;
        /// `mm`: both page frames with and without page structures.
        const MIXEDMAP = 1 << 28;
        /// `hg`: huge pages wanted.
        const HUGEPAGE = 1 << 29;
        /// `nh`: huge pages not wanted.
        const NOHUGEPAGE = 1 << 30;
        /// `mg`: same-page merging allowed.
        const MERGEABLE = 1 << 31;
        /// The four bits of the protection key.
        const PKEY = 0xf << 32;
        /// `ui`: userfaultfd handles minor faults.
        const UFFD_MINOR = 1 << 37;
        /// `ss`: a shadow stack.
        const SHADOW_STACK = 1 << 38;
        /// `dp`: pages may be dropped under memory pressure.
        const DROPPABLE = 1 << 39;
        /// `sl`: sealed by `mseal(2)`.
        const SEALED = 1 << 40;
    }
}

/// The two letters of `VmFlags:` in smaps, in the kernel's order of bits.
const SMAPS_NAMES: &[(&str, VmFlags)] = &[
    ("rd", VmFlags::READ),
    ("wr", VmFlags::WRITE),
    ("ex", VmFlags::EXEC),
    ("sh", VmFlags::SHARED),
    ("mr", VmFlags::MAYREAD),
    ("mw", VmFlags::MAYWRITE),
    ("me", VmFlags::MAYEXEC),
    ("ms", VmFlags::MAYSHARE),
    ("gd", VmFlags::GROWSDOWN),
    ("um", VmFlags::UFFD_MISSING),
    ("pf", VmFlags::PFNMAP),
    ("gu", VmFlags::GUARDED),
    ("uw", VmFlags::UFFD_WP),
    ("lo", VmFlags::LOCKED),
    ("io", VmFlags::IO),
    ("sr", VmFlags::SEQ_READ),
    ("rr", VmFlags::RAND_READ),
    ("dc", VmFlags::DONTCOPY),
    ("de", VmFlags::DONTEXPAND),
    ("lf", VmFlags::LOCKONFAULT),
    ("ac", VmFlags::ACCOUNT),
    ("nr", VmFlags::NORESERVE),
    ("ht", VmFlags::HUGETLB),
    ("sf", VmFlags::SYNC),
    ("ar", VmFlags::ARCH_1),
    ("wf", VmFlags::WIPEONFORK),
    ("dd", VmFlags::DONTDUMP),
    ("sd", VmFlags::SOFTDIRTY),
    ("mm", VmFlags::MIXEDMAP),
    ("hg", VmFlags::HUGEPAGE),
    ("nh", VmFlags::NOHUGEPAGE),
    ("mg", VmFlags::MERGEABLE),
    ("ui", VmFlags::UFFD_MINOR),
    ("ss", VmFlags::SHADOW_STACK),
    ("dp", VmFlags::DROPPABLE),
    ("sl", VmFlags::SEALED),
];

impl VmFlags {
    /// Read, write and execute: what mprotect changes, and what an anon_vma may be shared across.
    pub const ACCESS: Self = Self::READ.union(Self::WRITE).union(Self::EXEC);
    /// The three protections that the VMA may get.
    pub const MAY_ALL: Self = Self::MAYREAD.union(Self::MAYWRITE).union(Self::MAYEXEC);
    /// Both kinds of locking.
    pub const LOCKED_MASK: Self = Self::LOCKED.union(Self::LOCKONFAULT);
    /// Areas that a driver manages: they never merge and cannot be locked.
    pub const SPECIAL: Self = Self::IO
        .union(Self::DONTEXPAND)
        .union(Self::PFNMAP)
        .union(Self::MIXEDMAP);
    /// Areas below which a gap is kept free.
    pub(crate) const KEEPS_GAP: Self = Self::GROWSDOWN.union(Self::SHADOW_STACK);
    /// Every userfaultfd mode.
    pub const UFFD: Self = Self::UFFD_MISSING
        .union(Self::UFFD_WP)
        .union(Self::UFFD_MINOR);

    /// Parses the line `VmFlags:` of smaps (without the label). Unknown names are left out.
    ///
    /// ```
    /// use samara_mm::VmFlags;
    /// let flags = VmFlags::from_smaps("rd wr mr mw me ac");
    /// assert!(flags.contains(VmFlags::WRITE | VmFlags::ACCOUNT));
    /// ```
    pub fn from_smaps(text: &str) -> Self {
        let mut flags = Self::empty();
        for word in text.split_ascii_whitespace() {
            for (name, flag) in SMAPS_NAMES {
                if *name == word {
                    flags |= *flag;
                }
            }
        }
        flags
    }

    /// Returns the names that smaps prints for these flags, in its order.
    pub fn smaps_names(self) -> impl Iterator<Item = &'static str> {
        SMAPS_NAMES
            .iter()
            .filter(move |(_, flag)| self.contains(*flag))
            .map(|(name, _)| *name)
    }

    /// Returns the protection key of the area (0 when protection keys are not in use).
    pub const fn pkey(self) -> u32 {
        ((self.bits() >> 32) & 0xf) as u32
    }

    pub(crate) const fn with_pkey(self, pkey: u32) -> Self {
        Self::from_bits_retain(
            self.bits() & !Self::PKEY.bits() | ((pkey as u64) << 32) & Self::PKEY.bits(),
        )
    }

    /// Returns the access bits for a `PROT_*` argument.
    pub(crate) const fn from_prot(prot: u64) -> Self {
        Self::from_bits_retain(prot & PROT_ACCESS)
    }

    /// Returns `true` if the VMA is counted as data (`VmData`): private, writable, no stack.
    pub(crate) const fn is_data(self) -> bool {
        self.contains(Self::WRITE) && !self.intersects(Self::SHARED.union(Self::GROWSDOWN))
    }

    /// Returns `true` if the VMA is counted as stack (`VmStk`).
    pub(crate) const fn is_stack(self) -> bool {
        self.contains(Self::GROWSDOWN)
    }

    /// Returns `true` if the VMA is counted as code (`VmExe` and `VmLib`).
    pub(crate) const fn is_exec(self) -> bool {
        self.contains(Self::EXEC) && !self.intersects(Self::WRITE.union(Self::GROWSDOWN))
    }

    /// Returns `true` if a new mapping of this kind is charged to the commit limit: private and writable.
    pub(crate) const fn is_accountable(self) -> bool {
        self.contains(Self::WRITE)
            && !self.intersects(Self::NORESERVE.union(Self::SHARED).union(Self::HUGETLB))
    }
}
