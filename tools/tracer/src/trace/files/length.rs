//! The length of a mapped file, read without asking a process that serves it.

use std::ffi::CString;

use samara_conformance::orderings::Range;
use samara_linux::Tid;
use samara_mm::{FileId, PAGE_SIZE};

use super::{Files, stat, stat_of};

impl Files {
    /// Returns the number of pages of a file that a thread has mapped at a range, if it can be
    /// read.
    pub(crate) fn pages_of(
        &mut self,
        tid: Tid,
        (start, end): Range,
        id: FileId,
        name: &[u8],
    ) -> Option<u64> {
        let mapped = format!("/proc/{tid}/map_files/{start:x}-{end:x}");
        // Only root may look there, and only while the kernel has exactly this area.
        let mapped = stat(&CString::new(mapped).ok()?, true).ok();
        let file = mapped
            .or_else(|| self.held_of(id))
            .or_else(|| self.named(tid, id, name))?;
        let ends = file.st_mode & libc::S_IFMT == libc::S_IFREG && file.st_ino == id.inode;
        ends.then(|| (file.st_size as u64).div_ceil(PAGE_SIZE))
    }

    /// Reads it by a held descriptor of the file.
    fn held_of(&self, id: FileId) -> Option<libc::stat64> {
        let held = self.held.iter().map(|&index| &self.list[index]);
        held.filter(|known| known.file.id == id)
            .find_map(|known| stat_of(known.opened.descriptor()?).ok())
    }

    /// Reads it by the file's name. Skips file systems that a process serves, because that process
    /// would be asked for the name.
    fn named(&mut self, tid: Tid, id: FileId, name: &[u8]) -> Option<libc::stat64> {
        if self.served.holds(tid, libc::makedev(id.major, id.minor)) {
            return None;
        }
        stat(&CString::new(name).ok()?, true).ok()
    }
}
