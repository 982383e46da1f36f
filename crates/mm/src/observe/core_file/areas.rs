//! The VMAs in a core dump, and the dumped part of each.

use bitflags::bitflags;

use super::{PAGE, Segment};
use crate::flags::VmFlags;
use crate::vma::{Area, Backing};

bitflags! {
    /// The contents of a core dump: `/proc/PID/coredump_filter` (`core(5)`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Filter: u32 {
        /// Private memory.
        const ANON_PRIVATE = 1;
        /// Shared anonymous memory.
        const ANON_SHARED = 2;
        /// Private mappings of files.
        const FILE_PRIVATE = 4;
        /// Shared mappings of files.
        const FILE_SHARED = 8;
        /// The first page of a mapped ELF file.
        const ELF_HEADERS = 0x10;
        /// Private huge pages of hugetlbfs.
        const HUGE_PRIVATE = 0x20;
        /// Shared huge pages of hugetlbfs.
        const HUGE_SHARED = 0x40;
        /// Private mappings of files in memory (DAX).
        const DAX_PRIVATE = 0x80;
        /// Shared mappings of files in memory (DAX).
        const DAX_SHARED = 0x100;
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::ANON_PRIVATE | Self::ANON_SHARED | Self::ELF_HEADERS | Self::HUGE_PRIVATE
    }
}

/// Returns the number of bytes of a VMA, from its start, in a core dump. `is_elf` is asked if a
/// mapping of a file's beginning begins as an ELF file.
///
/// VMAs that the kernel installs are always dumped, and VMAs with `MADV_DONTDUMP` and of devices
/// never. Private mappings of files are dumped as private memory once the program has written to
/// them. O(1).
///
/// ```
/// use samara_mm::observe::core_file::{dumped, Filter};
/// use samara_mm::{AddressSpace, Advice, Config, Layout, Limits, MmapOptions};
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let start = space.mmap(&MmapOptions::anonymous(0x3000))?;
/// let length = |space: &AddressSpace| {
///     dumped(&space.lookup(start).unwrap(), Filter::default(), || false)
/// };
/// assert_eq!(length(&space), 0x3000);
/// space.madvise(start, 0x3000, Advice::DONTDUMP)?;
/// assert_eq!(length(&space), 0);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
pub fn dumped(area: &Area<'_>, filter: Filter, is_elf: impl FnOnce() -> bool) -> u64 {
    let vma = area.vma;
    if matches!(vma.backing, Backing::Special(_)) {
        return area.len();
    }
    if vma.flags.intersects(VmFlags::DONTDUMP | VmFlags::IO) {
        return 0;
    }
    let shared = vma.flags.contains(VmFlags::MAYSHARE);
    let has = |private, public| filter.contains(if shared { public } else { private });
    let whole = if vma.flags.contains(VmFlags::HUGETLB) {
        return if has(Filter::HUGE_PRIVATE, Filter::HUGE_SHARED) {
            area.len()
        } else {
            0
        };
    } else if shared {
        let nameless = matches!(
            vma.backing,
            Backing::SharedAnonymous(_) | Backing::Shm { .. }
        ) || vma
            .file()
            .is_some_and(|file| file.name.ends_with(" (deleted)"));
        filter.contains(if nameless {
            Filter::ANON_SHARED
        } else {
            Filter::FILE_SHARED
        })
    } else {
        let own = vma.is_anonymous() || vma.anon().is_some();
        own && filter.contains(Filter::ANON_PRIVATE)
            || !vma.is_anonymous() && filter.contains(Filter::FILE_PRIVATE)
    };
    if whole {
        return area.len();
    }
    let begins = vma.file().is_some() && !shared && area.page_offset() == 0;
    let readable = vma.flags.contains(VmFlags::READ);
    if begins && readable && filter.contains(Filter::ELF_HEADERS) && is_elf() {
        return area.len().min(PAGE as u64);
    }
    0
}

/// Returns the segment of a VMA, with this number of bytes in the file.
pub fn segment(area: &Area<'_>, dumped: u64) -> Segment {
    let mut flags = 0;
    for (flag, bit) in [(VmFlags::EXEC, 1), (VmFlags::WRITE, 2), (VmFlags::READ, 4)] {
        if area.vma.flags.contains(flag) {
            flags |= bit;
        }
    }
    Segment {
        start: area.start,
        end: area.end,
        flags,
        dumped,
    }
}
