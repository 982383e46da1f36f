//! The contents of a range, as drivers test before they let a device use a program's memory.

use bitflags::bitflags;

use crate::flags::VmFlags;
use crate::space::AddressSpace;
use crate::vma::Backing;

bitflags! {
    /// The contents found anywhere in a range.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Contents: u32 {
        /// An address where nothing is mapped.
        const HOLE = 1;
        /// A file, including shared anonymous memory.
        const FILE = 2;
        /// A VMA of a driver, or the kernel's own.
        const SPECIAL = 4;
        /// A VMA that cannot be written.
        const READ_ONLY = 8;
    }
}

impl AddressSpace {
    /// Returns the contents of `[start, end)`; nothing for an empty range. O(log n) and the VMAs in
    /// it.
    ///
    /// ```
    /// use samara_mm::observe::Contents;
    /// use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let memory = MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE);
    /// let start = space.mmap(&memory)?;
    /// assert_eq!(space.probe(start, start + 0x2000), Contents::empty());
    /// assert_eq!(space.probe(start - 1, start + 0x2000), Contents::HOLE);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn probe(&self, start: u64, end: u64) -> Contents {
        let mut found = Contents::empty();
        let mut at = start;
        while at < end {
            let Some(area) = self.areas.find_in(at, end) else {
                return found | Contents::HOLE;
            };
            if area.start > at {
                found |= Contents::HOLE;
            }
            let special = area.vma.flags.intersects(VmFlags::SPECIAL)
                || matches!(area.vma.backing, Backing::Special(_));
            if special {
                found |= Contents::SPECIAL;
            }
            if !matches!(area.vma.backing, Backing::Anonymous | Backing::Special(_)) {
                found |= Contents::FILE;
            }
            if !area.vma.flags.contains(VmFlags::WRITE) {
                found |= Contents::READ_ONLY;
            }
            at = area.end;
        }
        found
    }
}
