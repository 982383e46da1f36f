//! System V segments of traced programs.
//!
//! No list shows which segments have huge pages (`SHM_HUGETLB`). The first map that contains such a
//! segment does.

use std::collections::HashMap;
use std::fs;

use samara_conformance::counted::counted;
use samara_linux::Tid;
use samara_mm::{Counted, File, FileId, FileKind, PAGE_SIZE, ShmSegment};

/// Segments whose device and page size a map has shown.
#[derive(Debug, Default)]
pub(crate) struct Segments(HashMap<Listed, (FileId, FileKind)>);

/// A line of the list of segments: identifier, key and size in bytes.
type Listed = (i64, i64, u64);

impl Segments {
    /// Returns the System V segment with this identifier, as `/proc/sysvipc/shm` lists it for our
    /// own namespace. Maps show the segments of others. A segment that no map has shown yet counts
    /// as one of small pages.
    pub(crate) fn segment(&self, tid: Tid, identifier: i64) -> Option<Counted<ShmSegment>> {
        let (identifier, key, size) = listed(tid, identifier)?;
        let small = FileId {
            major: 0,
            minor: 1,
            inode: identifier as u64,
        };
        let known = self.0.get(&(identifier, key, size)).copied();
        let (id, kind) = known.unwrap_or((small, FileKind::Shmem));
        let name = format!("/SYSV{:08x} (deleted)", key as u32);
        Some(segment_of(id, &name, size, kind))
    }

    /// Returns `true` if a map has shown this segment.
    pub(crate) fn is_known(&self, segment: &ShmSegment) -> bool {
        key(segment).is_some_and(|key| self.0.contains_key(&key))
    }

    /// Notes how a map shows this segment, and returns the segment with these properties.
    pub(crate) fn confirm(
        &mut self,
        segment: &ShmSegment,
        id: FileId,
        page_size: u64,
    ) -> Counted<ShmSegment> {
        let kind = kind_of(page_size);
        if let Some(key) = key(segment) {
            self.0.insert(key, (id, kind));
        }
        segment_of(id, &segment.file.name, segment.size, kind)
    }
}

fn key(segment: &ShmSegment) -> Option<Listed> {
    let digits = segment.file.name.strip_prefix("/SYSV")?.get(..8)?;
    let key = u32::from_str_radix(digits, 16).ok()?;
    let identifier = segment.file.id.inode as i64;
    Some((identifier, i64::from(key as i32), segment.size))
}

/// Returns the kind of a segment with pages of this size in bytes.
fn kind_of(page_size: u64) -> FileKind {
    match page_size {
        0..=PAGE_SIZE => FileKind::Shmem,
        huge => FileKind::HugeTlb(huge),
    }
}

/// Returns the identifier, the key and the size of a segment of our own namespace.
fn listed(tid: Tid, identifier: i64) -> Option<Listed> {
    let own = fs::read_link("/proc/self/ns/ipc").ok()?;
    if fs::read_link(format!("/proc/{tid}/ns/ipc")).ok()? != own {
        return None;
    }
    let table = samara_linux::proc_file::read_text("/proc/sysvipc/shm").ok()?;
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = |name: &str| columns.iter().position(|column| *column == name);
    let (key, id, size) = (column("key")?, column("shmid")?, column("size")?);
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.get(id)?.parse() != Ok(identifier) {
            continue;
        }
        let key = fields.get(key)?.parse().ok()?;
        return Some((identifier, key, fields.get(size)?.parse().ok()?));
    }
    None
}

/// Returns the segment of another namespace that a map shows in an area.
pub(crate) fn shown(id: FileId, name: &str, size: u64, page_size: u64) -> Counted<ShmSegment> {
    segment_of(id, name, size, kind_of(page_size))
}

/// Returns a segment with this identity, name, size in bytes and kind.
fn segment_of(id: FileId, name: &str, size: u64, kind: FileKind) -> Counted<ShmSegment> {
    let file = File {
        kind,
        ..File::new(id, name.into())
    };
    counted(ShmSegment {
        file: counted(file),
        size,
    })
}
