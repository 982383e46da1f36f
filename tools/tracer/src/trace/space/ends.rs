//! The kernel's own stores beyond the end of a private file mapping, or to a range that a
//! userfaultfd fills: for example by `read(2)`.
//!
//! Such a store fails without a reported fault, and leaves no page. But the area has an `anon_vma`
//! afterwards, and no longer merges with areas with which it would have merged. So for each
//! writable area beyond the end of its file, or registered with a userfaultfd, there are two
//! hypotheses, with such a store and without one. They start when the area is first seen. Files
//! that become shorter later are examined where the maps differ.
//!
//! Areas that the program may not write can be written through `/proc/PID/mem`, by itself or
//! another process. That is rare, so only the `anon_vma` of such an area is in doubt from then on,
//! whatever happens to it and its file.

use samara_conformance::orderings::Range;
use samara_linux::Tid;
use samara_mm::{Area, Call, FileId, PAGE_SIZE, VmFlags};

use super::{Space, Who};
use crate::trace::files::Files;
use crate::trace::session::Session;

/// The modes in which a userfaultfd fills missing pages, or makes the file's pages its own. A
/// userfaultfd that only write-protects leaves pages (observed).
const WATCHED: VmFlags = VmFlags::UFFD_MISSING.union(VmFlags::UFFD_MINOR);
const PROT_WRITE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;

/// Returns the range in which a call has mapped files, made areas writable, or registered them with
/// a userfaultfd.
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

/// Returns the first page of an area to which the kernel may have stored without a trace: the
/// area's file ends before it, or a userfaultfd fills it.
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
    /// Starts the hypotheses of a write for each area without an available page, after a call that
    /// made it.
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

    /// Notes that writes to a range cannot be determined.
    fn doubted(&mut self, start: u64, end: u64, session: &mut Session) {
        self.checker.doubt(start, end);
        if let Some(record) = &mut session.record {
            record.shown_late(self.number, start, end);
        }
    }

    /// Doubts the areas beyond the ends of files in the kernel's map, after the maps have differed.
    /// They may have been written before.
    pub(super) fn doubt_ends(&mut self, who: Who, session: &mut Session) {
        let mut beyond = Vec::new();
        for area in session.map.areas() {
            // The program's permission to write does not matter: `/proc/PID/mem` ignores it.
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

    /// Doubts unwritable file areas that have been written nevertheless, through `/proc/PID/mem`.
    /// That is examined only where the maps differ, and where a call is about to make an area
    /// writable: afterwards the two kinds of writes look the same.
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
