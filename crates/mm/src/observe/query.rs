//! One area, by address and conditions: `PROCMAP_QUERY` (Documentation/filesystems/proc.rst; Linux 6.11 and later).

use bitflags::bitflags;

use crate::errno::Errno;
use crate::file::{FileId, FileKind};
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::space::AddressSpace;
use crate::space::maps::line;
use crate::space::vma::{Area, Vma};

bitflags! {
    /// Which area is asked for, and what an area is: `PROCMAP_QUERY_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct QueryFlags: u64 {
        /// It can be read.
        const READABLE = 1;
        /// It can be written.
        const WRITABLE = 2;
        /// It can be executed.
        const EXECUTABLE = 4;
        /// It is shared.
        const SHARED = 8;
        /// Not only the area at the address, but the first one from there on that meets the conditions.
        const COVERING_OR_NEXT = 0x10;
        /// It maps a file.
        const FILE_BACKED = 0x20;
    }
}

impl QueryFlags {
    /// What an answer tells.
    const TOLD: Self = Self::READABLE
        .union(Self::WRITABLE)
        .union(Self::EXECUTABLE)
        .union(Self::SHARED);
}

/// The answer: the fields of `struct procmap_query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// Permissions, and whether it is shared.
    pub flags: QueryFlags,
    /// Bytes of its pages.
    pub page_size: u64,
    /// Offset in the file in bytes; 0 without a file.
    pub offset: u64,
    /// Device and inode.
    pub id: FileId,
    /// As in the map; empty if there is none.
    pub name: &'a str,
}

impl AddressSpace {
    /// The area at `address` that meets all of the conditions; with [`QueryFlags::COVERING_OR_NEXT`] the first one from there on that does. O(log n), and the areas
    /// that are passed over.
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

/// What of the conditions an area meets.
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
