//! The mapped files, as the links in `/proc/PID/map_files` name them.

use core::fmt;

use crate::space::AddressSpace;
use crate::vma::{Area, Backing};

/// A link in `/proc/PID/map_files`. Its `Display` is its name.
#[derive(Clone, Copy, Debug)]
pub struct MapFile<'a> {
    area: Area<'a>,
}

impl<'a> MapFile<'a> {
    /// Returns the target of the link.
    pub fn target(&self) -> &'a str {
        match &self.area.vma.backing {
            Backing::File(file) => &file.name,
            Backing::Shm { segment, .. } => &segment.file.name,
            _ => "/dev/zero (deleted)",
        }
    }

    /// Returns the VMA.
    pub fn area(&self) -> Area<'a> {
        self.area
    }
}

impl fmt::Display for MapFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.area.start, self.area.end)
    }
}

impl AddressSpace {
    /// Returns the links of `/proc/PID/map_files`, ascending: one for each VMA that maps a file,
    /// including shared anonymous memory. O(n).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Counted, File, FileId, Layout, Limits, MmapOptions};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let id = FileId { major: 8, minor: 1, inode: 2 };
    /// let file = Counted::try_new(File::new(id, "/bin/a".into()))?;
    /// space.mmap(&MmapOptions::file(file, 0, 0x2000).fixed(0x10000))?;
    /// space.mmap(&MmapOptions::anonymous(0x1000).fixed(0x20000))?;
    /// let links: Vec<_> = space.map_files().map(|link| (link.to_string(), link.target())).collect();
    /// assert_eq!(links, [("10000-12000".to_string(), "/bin/a")]);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn map_files(&self) -> impl DoubleEndedIterator<Item = MapFile<'_>> {
        let maps =
            |area: &Area<'_>| !matches!(area.vma.backing, Backing::Anonymous | Backing::Special(_));
        self.areas.iter().filter(maps).map(|area| MapFile { area })
    }
}
