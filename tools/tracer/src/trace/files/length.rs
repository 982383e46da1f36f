//! The length of a mapped file, without a request to a process that serves it.

use std::ffi::CString;

use samara_conformance::orderings::Range;
use samara_linux::Tid;
use samara_mm::{FileId, PAGE_SIZE};

use super::{Files, stat, stat_of};

impl Files {
    /// Returns the number of pages of a file that a thread has mapped there, if that can be seen.
    pub(crate) fn pages_of(
        &mut self,
        tid: Tid,
        (start, end): Range,
        id: FileId,
        name: &[u8],
    ) -> Option<u64> {
        let mapped = format!("/proc/{tid}/map_files/{start:x}-{end:x}");
        // Which only root may look at, and only while the kernel has just this area.
        let mapped = stat(&CString::new(mapped).ok()?, true).ok();
        let file = mapped
            .or_else(|| self.held_of(id))
            .or_else(|| self.named(tid, id, name))?;
        let ends = file.st_mode & libc::S_IFMT == libc::S_IFREG && file.st_ino == id.inode;
        ends.then(|| (file.st_size as u64).div_ceil(PAGE_SIZE))
    }

    /// By a descriptor that is held of it.
    fn held_of(&self, id: FileId) -> Option<libc::stat64> {
        let held = self.held.iter().map(|&index| &self.list[index]);
        held.filter(|known| known.file.id == id)
            .find_map(|known| stat_of(known.opened.descriptor()?).ok())
    }

    /// By its name. A process that serves its file system would be asked for what the name leads to.
    fn named(&mut self, tid: Tid, id: FileId, name: &[u8]) -> Option<libc::stat64> {
        if self.served.holds(tid, libc::makedev(id.major, id.minor)) {
            return None;
        }
        stat(&CString::new(name).ok()?, true).ok()
    }
}
