//! The core of a recording: its areas, and what of their memory can be known without having been recorded.
//!
//! That is the memory that no process could write to. A mapping of a part of a file which no
//! process of the recording ever mapped writable has the file's contents, if the file is still the
//! same one and has not changed since the recording. Areas of which nothing is known are in the
//! core as those with `MADV_DONTDUMP` are.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use samara_mm::observe::core_file::{
    self, CORE, EM_X86_64, Ids, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, Note, ProcessInfo, Source,
    ThreadStatus,
};
use samara_mm::{Area, VmFlags};
use samara_tracer::quantity::{bytes, grouped, number_of};
use samara_tracer::record::{Cut, Reader};
use samara_tracer::replay;
use samara_tracer::tell::say;
use samara_tracer::tell::unless_closed;

use super::out::{Out, cannot_write};

const PAGE: u64 = 4096;

/// An area of which the memory is known.
#[derive(Debug)]
struct Known {
    start: u64,
    end: u64,
    file: File,
    /// Of the area's start in it, in bytes.
    offset: u64,
}

/// Ascending.
#[derive(Debug, Default)]
struct Memory(Vec<Known>);

impl Memory {
    fn at(&self, addr: u64) -> Option<&Known> {
        let place = self.0.partition_point(|known| known.end <= addr);
        self.0.get(place).filter(|known| known.start <= addr)
    }
}

impl Source for Memory {
    fn next(&mut self, addr: u64, end: u64) -> Option<u64> {
        (self.at(addr).is_some() && addr < end).then_some(addr)
    }

    fn page(&mut self, addr: u64, into: &mut [u8; PAGE as usize]) -> bool {
        into.fill(0);
        let Some(known) = self.at(addr) else {
            return false;
        };
        let offset = known.offset + (addr - known.start);
        let mut filled = 0;
        while let Ok(read @ 1..) = known
            .file
            .read_at(&mut into[filled..], offset + filled as u64)
        {
            filled += read;
        }
        // Behind the end of a file its last page is zeroes.
        filled > 0
    }
}

/// Writes the core of what performed call number `call`, or the last one. Returns where the recording was interrupted, if it was.
///
/// # Errors
/// What is wrong, in a line.
pub(super) fn dump(file: &Path, call: Option<u64>, path: &Path) -> Result<Option<Cut>, String> {
    let shown = file.display();
    let reader = Reader::open(file).map_err(|damage| format!("`{shown}` {damage}"))?;
    let made = fs::metadata(file).and_then(|found| found.modified());
    let (call, space) = replay::at(&reader, call).map_err(|calls| {
        let calls = number_of(calls, "call");
        format!("`{shown}` has {calls} that can be performed, and an address space after each but those behind which it ends: give FILE@CALL")
    })?;
    let film = crate::picture::film(&reader);
    let writable: Vec<(&str, u64, u64)> = film.writable().collect();
    let mut memory = Memory::default();
    let mut segments = Vec::with_capacity(space.area_count());
    let (mut all, mut held) = (0, 0);
    for area in space.areas() {
        let unchanged = |found: &fs::Metadata| matches!((found.modified(), &made), (Ok(changed), Ok(made)) if changed <= *made);
        let known = known(&area, &writable, unchanged);
        let dumped = known.as_ref().map_or(0, |known| known.end - known.start);
        all += area.end - area.start;
        held += dumped;
        memory.0.extend(known);
        segments.push(core_file::segment(&area, dumped));
    }
    let files = core_file::files(&space).map_err(|errno| errno.to_string())?;
    let words = replay::words(&reader);
    let name = words
        .first()
        .map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let ids = Ids {
        pid: 1,
        ..Ids::default()
    };
    let information = ProcessInfo {
        state: b'R',
        ids,
        name: name.as_bytes(),
        arguments: words.join(" ").as_bytes(),
        ..ProcessInfo::default()
    }
    .bytes();
    // Debuggers want a thread; what was in its registers is not known.
    let status = ThreadStatus {
        ids,
        ..ThreadStatus::default()
    }
    .bytes();
    let note = |kind, bytes| Note {
        name: CORE,
        kind,
        bytes,
    };
    let notes = [
        note(NT_PRSTATUS, &status[..]),
        note(NT_PRPSINFO, &information[..]),
        note(NT_FILE, &files[..]),
    ];
    let mut out = Out::create(path)?;
    let written = core_file::write(
        &mut out,
        EM_X86_64,
        &notes,
        segments.iter().copied(),
        &mut memory,
    )
    .and_then(|()| out.finish());
    let read = written.is_ok();
    unless_closed(written).map_err(|error| cannot_write(path, &error))?;
    if !read {
        return Ok(reader.cut);
    }
    say(&format!(
        "samara: `{}` has {} after call {call}, all that there were, and the memory of {} of them, {} of {}: what could be written is not in a recording, nor are registers and the auxiliary vector",
        path.display(),
        number_of(segments.len() as u64, "area"),
        grouped(memory.0.len() as u64),
        bytes(held),
        bytes(all),
    ));
    Ok(reader.cut)
}

/// Returns the memory of an area, if it can be known. `writable` are the parts of files that a
/// process could write to in memory. `unchanged` says of a file that it is unchanged.
fn known(
    area: &Area<'_>,
    writable: &[(&str, u64, u64)],
    unchanged: impl FnOnce(&fs::Metadata) -> bool,
) -> Option<Known> {
    let vma = area.vma;
    let mapped = vma.file()?;
    let offset = area.page_offset() << 12;
    let end = offset + (area.end - area.start);
    let part = |(name, from, until): &(&str, u64, u64)| {
        *name == &*mapped.name && *from < end && offset < *until
    };
    let excluded = VmFlags::DONTDUMP | VmFlags::IO | VmFlags::WRITE;
    if vma.anon().is_some() || vma.flags.intersects(excluded) || writable.iter().any(part) {
        return None;
    }
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&*mapped.name)
        .ok()?;
    let found = file.metadata().ok()?;
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    let same = (major, minor, found.ino()) == (mapped.id.major, mapped.id.minor, mapped.id.inode);
    (found.is_file() && same && unchanged(&found)).then_some(Known {
        start: area.start,
        end: area.end,
        file,
        offset,
    })
}
