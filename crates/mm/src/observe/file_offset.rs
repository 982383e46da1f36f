//! The addresses of a byte of a file, at which a debugger sets a breakpoint in the processes that
//! map it.

use crate::file::FileId;
use crate::space::AddressSpace;
use crate::vma::Area;

impl AddressSpace {
    /// Returns the addresses at which the byte at `offset` of a file is mapped, ascending, each
    /// with its VMA. There are several if the file is mapped several times. A breakpoint needs
    /// those in executable VMAs. O(n).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Counted, File, FileId, Layout, Limits, MmapOptions, Prot};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let id = FileId { major: 8, minor: 1, inode: 2 };
    /// let file = Counted::try_new(File::new(id, "/bin/a".into()))?;
    /// let code = MmapOptions::file(file, 0x3000, 0x2000).prot(Prot::READ | Prot::EXEC);
    /// let start = space.mmap(&code)?;
    /// let places: Vec<u64> = space.places(id, 0x4010).map(|(address, _)| address).collect();
    /// assert_eq!(places, [start + 0x1010]);
    /// assert_eq!(space.places(id, 0x2fff).count(), 0);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn places(&self, file: FileId, offset: u64) -> impl Iterator<Item = (u64, Area<'_>)> {
        self.areas.iter().filter_map(move |area| {
            area.vma.file().filter(|mapped| mapped.id == file)?;
            let into = offset.checked_sub(area.page_offset() << 12)?;
            (into < area.len()).then(|| (area.start + into, area))
        })
    }
}
