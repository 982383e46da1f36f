//! Stores of the kernel's beyond the end of a private file mapping, or where a userfaultfd answers the program alone: `read(2)` into it, say.
//!
//! Such stores fail, no fault is reported, and no page is there, before or after. But the area has
//! its `anon_vma` from then on, and no longer merges with areas that it would have merged with. So
//! any writable area that is mapped beyond the end of its file, or is watched, is followed with
//! such a store and without one from the moment on when it is seen. Files that become shorter later
//! are examined where the maps have parted.
//!
//! What the program may not write there is written even so through `/proc/PID/mem`, by itself or another. That is rare, and who owns such an area is in doubt only:
//! whatever becomes of it, and of its file, from then on.

use samara_conformance::orderings::Range;
use samara_linux::Tid;
use samara_mm::{Area, Call, FileId, PAGE_SIZE, VmFlags};

use super::{Space, Who};
use crate::trace::files::Files;
use crate::trace::session::Session;

/// A userfaultfd brings pages there that are missing, or makes those of the file its own. One that only write-protects leaves pages behind (observed).
const WATCHED: VmFlags = VmFlags::UFFD_MISSING.union(VmFlags::UFFD_MINOR);
const PROT_WRITE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;

/// Returns the range that a call has mapped, or made writable, or had watched, and in which files
/// may end.
fn concerned(call: &Call, returned: i64) -> Option<Range> {
    if (-4095..0).contains(&returned) {
        return None;
    }
    let range = |start: u64, len: u64| (start, start.saturating_add(len));
    match *call {
        Call::Mmap { len, flags, .. }
            if flags & MAP_TYPE == MAP_PRIVATE && flags & MAP_ANONYMOUS == 0 =>
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

/// The first page of an area that the kernel may have stored to without a trace, since its file ends before, or a userfaultfd is to fill it in.
fn without_a_page(tid: Tid, area: &Area<'_>, files: &mut Files) -> Option<u64> {
    let vma = area.vma;
    if vma.flags.contains(VmFlags::SHARED) || vma.anon().is_some() {
        return None;
    }
    if vma.flags.intersects(WATCHED) {
        return Some(area.start);
    }
    let file = vma.file()?;
    let range = (area.start, area.end);
    let pages = files.pages_of(tid, range, file.id, file.name.as_bytes())?;
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
        let Some(range) = concerned(call, returned) else {
            return;
        };
        let engine = self.checker.engine();
        let mut found = Vec::new();
        let mut forced = Vec::new();
        let mut next = range.0;
        while let Some(area) = engine.find_intersection(next, range.1) {
            next = area.end;
            let Some(first) = without_a_page(who.tid, &area, &mut session.files) else {
                continue;
            };
            match area.vma.flags.contains(VmFlags::WRITE) {
                true => found.push(first),
                false => forced.push((area.start, area.end)),
            }
        }
        for first in found {
            self.perhaps_written(first, session);
        }
        for (start, end) in forced {
            self.doubted(start, end, session);
        }
    }

    /// Notes that it is unknown if anything of a range was written.
    fn doubted(&mut self, start: u64, end: u64, session: &mut Session) {
        self.checker.doubt(start, end);
        if let Some(record) = &mut session.record {
            record.shown_late(self.number, start, end);
        }
    }

    /// The maps have parted: what lies beyond the ends of files in the kernel's may have been written before.
    pub(super) fn doubt_ends(&mut self, who: Who, session: &mut Session) {
        let mut beyond = Vec::new();
        for area in session.map.areas() {
            // Whether the program may write there is of no importance: through `/proc/PID/mem` it is written even so.
            if area.inode == 0 || area.perms[3] != b'p' {
                continue;
            }
            let (start, end) = (area.start, area.end);
            let id = FileId {
                major: area.major,
                minor: area.minor,
                inode: area.inode,
            };
            let name = session.map.name(area);
            let pages = session.files.pages_of(who.tid, (start, end), id, name);
            if pages.is_some_and(|pages| pages < (area.offset + (end - start)) / PAGE_SIZE) {
                beyond.push((start, end));
            }
        }
        for (start, end) in beyond {
            self.doubted(start, end, session);
        }
    }

    /// Notes writes to files where the program may not write (through `/proc/PID/mem`). They are
    /// searched only where the maps have parted, and where a call is about to let the program write
    /// there: afterwards the two could not be told apart.
    pub(super) fn doubt_forced(&mut self, (low, high): Range, session: &mut Session) {
        let unwritable = |area: &Area<'_>| {
            let flags = area.vma.flags & (VmFlags::WRITE | VmFlags::SHARED);
            flags.is_empty() && area.vma.anon().is_none() && area.vma.file().is_some()
        };
        let engine = self.checker.engine();
        let mut forced = Vec::new();
        let mut next = low;
        while let Some(area) = engine.find_intersection(next, high) {
            next = area.end;
            if unwritable(&area) {
                forced.push((area.start, area.end));
            }
        }
        forced.retain(|&(start, end)| self.pagemap.written(start, end).unwrap_or(false));
        for (start, end) in forced {
            self.doubted(start, end, session);
        }
    }
}

/// Returns the range that a call is about to make writable.
pub(super) fn opened(call: &Call) -> Option<Range> {
    match *call {
        Call::Mprotect {
            addr, len, prot, ..
        } if prot & PROT_WRITE != 0 => Some((addr, addr.saturating_add(len))),
        _ => None,
    }
}
