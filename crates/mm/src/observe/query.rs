//! One VMA, by address and conditions: `PROCMAP_QUERY` (Documentation/filesystems/proc.rst; Linux
//! 6.11 and later).

use bitflags::bitflags;

use crate::errno::Errno;
use crate::file::{FileId, FileKind};
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::space::AddressSpace;
use crate::space::maps::line;
use crate::vma::{Area, Vma};

bitflags! {
    /// The conditions of a query, and the properties of a VMA: `PROCMAP_QUERY_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct QueryFlags: u64 {
        /// Readable.
        const READABLE = 1;
        /// Writable.
        const WRITABLE = 2;
        /// Executable.
        const EXECUTABLE = 4;
        /// Shared.
        const SHARED = 8;
        /// The first VMA at or above the address that meets the conditions, not only the one at the
        /// address.
        const COVERING_OR_NEXT = 0x10;
        /// Maps a file.
        const FILE_BACKED = 0x20;
    }
}

impl QueryFlags {
    /// The properties in an answer.
    const TOLD: Self = Self::READABLE
        .union(Self::WRITABLE)
        .union(Self::EXECUTABLE)
        .union(Self::SHARED);
}

/// The answer: the fields of `struct procmap_query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The first address.
    pub start: u64,
    /// The first address beyond.
    pub end: u64,
    /// Permissions, and sharing.
    pub flags: QueryFlags,
    /// The page size in bytes.
    pub page_size: u64,
    /// The offset in the file in bytes; 0 without a file.
    pub offset: u64,
    /// Device and inode.
    pub id: FileId,
    /// The name in the map; empty if there is none.
    pub name: &'a str,
}

impl AddressSpace {
    /// Returns the VMA at `address` that meets all conditions. With
    /// [`QueryFlags::COVERING_OR_NEXT`] it returns the first one from there on that does. O(log n),
    /// and the skipped VMAs.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EINVAL` for unknown flags.
    ///
    /// ```
    /// use samara_mm::observe::QueryFlags;
    /// use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, MmapOptions, Prot};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let start = space.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ))?;
    /// let next = QueryFlags::COVERING_OR_NEXT | QueryFlags::READABLE;
    /// assert_eq!(space.query(0x1000, next)?.start, start);
    /// assert_eq!(space.query(0x1000, QueryFlags::empty()), Err(Errno::ENOENT));
    /// # Ok::<(), Errno>(())
    /// ```
    pub fn query(&self, address: u64, flags: QueryFlags) -> Result<Query<'_>, Errno> {
        if !QueryFlags::all().contains(flags) {
            return Err(Errno::EINVAL);
        }
        let mut at = address;
        loop {
            let area = self.areas.find(at).ok_or(Errno::ENOENT)?;
            let next = flags.contains(QueryFlags::COVERING_OR_NEXT);
            if !next && area.start > address {
                return Err(Errno::ENOENT);
            }
            if meets(area.vma, flags) {
                return Ok(self.answer(area));
            }
            if !next {
                return Err(Errno::ENOENT);
            }
            at = area.end;
        }
    }

    fn answer<'a>(&'a self, area: Area<'a>) -> Query<'a> {
        let line = line(area, &self.shown_layout());
        let page_size = match area.vma.file().map(|file| file.kind) {
            Some(FileKind::HugeTlb(size)) => size,
            _ => PAGE_SIZE,
        };
        Query {
            start: line.start,
            end: line.end,
            flags: properties(area.vma) & QueryFlags::TOLD,
            page_size,
            offset: line.offset,
            id: line.id,
            name: line.name,
        }
    }
}

/// Returns the properties of a VMA.
fn properties(vma: &Vma) -> QueryFlags {
    let mut found = QueryFlags::empty();
    for (flag, property) in [
        (VmFlags::READ, QueryFlags::READABLE),
        (VmFlags::WRITE, QueryFlags::WRITABLE),
        (VmFlags::EXEC, QueryFlags::EXECUTABLE),
        (VmFlags::MAYSHARE, QueryFlags::SHARED),
    ] {
        found.set(property, vma.flags.contains(flag));
    }
    // Shared anonymous memory is a file to the kernel.
    let object = matches!(vma.backing, crate::Backing::SharedAnonymous(_));
    found.set(QueryFlags::FILE_BACKED, vma.file().is_some() || object);
    found
}

fn meets(vma: &Vma, conditions: QueryFlags) -> bool {
    properties(vma).contains(conditions - QueryFlags::COVERING_OR_NEXT)
}
