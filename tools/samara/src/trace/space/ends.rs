//! Stores of the kernel's beyond the end of a private file mapping, or where a userfaultfd answers the program alone: `read(2)` into it, say.
//!
//! They fail, and nobody is told of a fault; no page is there, before or after. But the area has its `anon_vma` from then on, and joins others no more that it would
//! have joined. So whatever is mapped beyond the end of its file, or is watched, and may be written, is followed with such a store and without one, from the moment
//! on when it is seen. Files that become shorter later are looked at where the maps have parted.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use samara_mm::{Area, Call, PAGE_SIZE, VmFlags};

use super::{Space, Who};
use crate::histories::Range;
use crate::trace::ptrace::Tid;
use crate::trace::session::Session;

const PROT_WRITE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;

/// What a call has mapped, or made writable, in which files may end, or has had watched.
fn writable(call: &Call, returned: i64) -> Option<Range> {
    if (-4095..0).contains(&returned) {
        return None;
    }
    let range = |start: u64, len: u64| (start, start.saturating_add(len));
    match *call {
        Call::Mmap {
            len, prot, flags, ..
        } if prot & PROT_WRITE != 0
            && flags & MAP_TYPE == MAP_PRIVATE
            && flags & MAP_ANONYMOUS == 0 =>
        {
            Some(range(returned as u64, len))
        }
        Call::Mprotect {
            addr, len, prot, ..
        } if prot & PROT_WRITE != 0 => Some(range(addr, len)),
        Call::Mremap {
            old_len, new_len, ..
        } if new_len > old_len => Some(range(returned as u64, new_len)),
        Call::UffdRegister { addr, len, .. } => Some(range(addr, len)),
        _ => None,
    }
}

/// How many pages a file has that is mapped there, if that can be seen.
fn pages_of(tid: Tid, (start, end): Range, name: &Path, inode: u64) -> Option<u64> {
    let mapped = format!("/proc/{tid}/map_files/{start:x}-{end:x}");
    // Which only root may look at; others find most files by their names.
    let file = fs::metadata(mapped).or_else(|_| fs::metadata(name)).ok()?;
    let ends = file.is_file() && file.ino() == inode;
    ends.then(|| file.len().div_ceil(PAGE_SIZE))
}

/// The first page of an area that the kernel may have stored to without a trace, since its file ends before, or a userfaultfd is to fill it in.
fn without_a_page(tid: Tid, area: &Area<'_>) -> Option<u64> {
    let vma = area.vma;
    let open = vma.flags & (VmFlags::WRITE | VmFlags::SHARED) == VmFlags::WRITE;
    if !open || vma.anon().is_some() {
        return None;
    }
    if vma.flags.contains(VmFlags::UFFD_MISSING) {
        return Some(area.start);
    }
    let file = vma.file()?;
    let range = (area.start, area.end);
    let pages = pages_of(tid, range, Path::new(&*file.name), file.id.inode)?;
    let beyond = pages.saturating_sub(area.page_offset());
    let first = area.start.saturating_add(beyond.saturating_mul(PAGE_SIZE));
    (first < area.end).then_some(first)
}

impl Space {
    /// After a call: where it has left no page to be had, that is written from now on, or is not.
    pub(super) fn look_for_ends(
        &mut self,
        call: &Call,
        returned: i64,
        who: Who,
        session: &mut Session,
    ) {
        let Some(range) = writable(call, returned) else {
            return;
        };
        let engine = self.follower.engine();
        let mut found = Vec::new();
        let mut next = range.0;
        while let Some(area) = engine.find_intersection(next, range.1) {
            next = area.end;
            found.extend(without_a_page(who.tid, &area));
        }
        for first in found {
            self.perhaps_written(first, session);
        }
    }

    /// The maps have parted: what lies beyond the ends of files in the kernel's may have been written before.
    pub(super) fn doubt_ends(&mut self, who: Who, session: &mut Session) {
        for area in session.map.areas() {
            if area.inode == 0 || area.perms[1] != b'w' || area.perms[3] != b'p' {
                continue;
            }
            let (start, end) = (area.start, area.end);
            let name = Path::new(OsStr::from_bytes(session.map.name(area)));
            let pages = pages_of(who.tid, (start, end), name, area.inode);
            if pages.is_some_and(|pages| pages < (area.offset + (end - start)) / PAGE_SIZE) {
                self.follower.doubt(start, end);
                if let Some(record) = &mut session.record {
                    record.shown_late(self.number, start, end);
                }
            }
        }
    }

    /// The maps have parted: what was written of files where the program may not write (through `/proc/PID/mem`) is looked for only now.
    pub(super) fn doubt_forced(&mut self, session: &mut Session) {
        let unwritable = |area: &Area<'_>| {
            let flags = area.vma.flags & (VmFlags::WRITE | VmFlags::SHARED);
            flags.is_empty() && area.vma.anon().is_none() && area.vma.file().is_some()
        };
        let engine = self.follower.engine();
        let areas = engine.areas().filter(unwritable);
        let mut forced: Vec<Range> = areas.map(|area| (area.start, area.end)).collect();
        forced.retain(|&(start, end)| self.pagemap.written(start, end).unwrap_or(false));
        for (start, end) in forced {
            self.follower.doubt(start, end);
            if let Some(record) = &mut session.record {
                record.shown_late(self.number, start, end);
            }
        }
    }
}
