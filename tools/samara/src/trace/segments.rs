//! System V segments of traced programs.

use std::fs;

use samara_mm::{Counted, File, FileId, FileKind, ShmSegment};

use crate::counted::counted;

use super::ptrace::Tid;

/// The System V segment with this identifier, as `/proc/sysvipc/shm` lists it: that is of our own namespace. What others have, their maps
/// tell.
pub(crate) fn segment(tid: Tid, identifier: i64) -> Option<Counted<ShmSegment>> {
    let own = fs::read_link("/proc/self/ns/ipc").ok()?;
    if fs::read_link(format!("/proc/{tid}/ns/ipc")).ok()? != own {
        return None;
    }
    let table = crate::proc_file::read_text("/proc/sysvipc/shm").ok()?;
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = |name: &str| columns.iter().position(|column| *column == name);
    let (key, id, size) = (column("key")?, column("shmid")?, column("size")?);
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.get(id)?.parse() != Ok(identifier) {
            continue;
        }
        let key: i64 = fields.get(key)?.parse().ok()?;
        let id = FileId {
            major: 0,
            minor: 1,
            inode: identifier as u64,
        };
        let name = format!("/SYSV{:08x} (deleted)", key as u32);
        return Some(segment_of(id, &name, fields.get(size)?.parse().ok()?));
    }
    None
}

/// A segment with this identity, name and size in bytes.
pub(crate) fn segment_of(id: FileId, name: &str, size: u64) -> Counted<ShmSegment> {
    let file = File {
        kind: FileKind::Shmem,
        ..File::new(id, name.into())
    };
    counted(ShmSegment {
        file: counted(file),
        size,
    })
}
