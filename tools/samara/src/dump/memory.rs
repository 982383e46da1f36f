//! The bytes of a process's memory, and where there are any.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use samara_linux::pagemap::Pagemap;
use samara_mm::observe::core_file::Source;

const PAGE: u64 = 4096;

/// The way to find the pages of an area that are worth reading.
#[derive(Debug)]
enum Finding {
    /// Runs of pages that were written, ascending; others are zeroes.
    Written(Vec<(u64, u64)>, usize),
    /// The file tells where it has data: offset of the area's start in it.
    Data(File, u64),
    /// All of them.
    All,
}

/// The facts about an area that a dump needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    /// Private memory without a file: pages that were never written are zeroes.
    pub(super) anonymous: bool,
    pub(super) shared: bool,
}

/// The memory of a stopped process.
#[derive(Debug)]
pub(super) struct Memory {
    /// The thread through which it is read.
    tid: i32,
    file: File,
    pagemap: Pagemap,
    /// Ascending.
    places: Vec<Place>,
    /// Of the place with this number.
    found: Option<(usize, Finding)>,
}

impl Memory {
    pub(super) fn open(tid: i32, places: Vec<Place>) -> io::Result<Self> {
        Ok(Self {
            tid,
            file: File::open(format!("/proc/{tid}/mem"))?,
            pagemap: Pagemap::open(tid)?,
            places,
            found: None,
        })
    }

    /// Returns `true` if an ELF file begins here.
    pub(super) fn is_elf(&self, addr: u64) -> bool {
        let mut magic = [0; 4];
        self.file.read_exact_at(&mut magic, addr).is_ok() && &magic == b"\x7fELF"
    }

    /// Returns the start of the zeroes that go on to `end`, as far as is known, for the area that
    /// begins at `start`.
    pub(super) fn written_end(&mut self, start: u64, end: u64) -> u64 {
        if self.next(start, end).is_none() {
            return start;
        }
        match &self.found {
            Some((_, Finding::Written(runs, _))) => runs.last().map_or(start, |run| run.1.min(end)),
            _ => end,
        }
    }

    fn finding(&mut self, place: &Place) -> Finding {
        if place.anonymous {
            let mut runs: Vec<(u64, u64)> = Vec::new();
            let note = &mut |start, end| {
                match runs.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => runs.push((start, end)),
                }
                true
            };
            if self
                .pagemap
                .each_written(place.start, place.end, note)
                .is_ok()
            {
                return Finding::Written(runs, 0);
            }
        } else if place.shared {
            // Reading where a file in memory has a hole would fill it.
            let name = format!(
                "/proc/{}/map_files/{:x}-{:x}",
                self.tid, place.start, place.end
            );
            if let Ok(file) = File::open(name) {
                return Finding::Data(file, place.offset);
            }
        }
        Finding::All
    }
}

/// Returns the first offset from `from` on where the file has data; `Ok(None)` if it has none.
fn data(file: &File, from: u64) -> io::Result<Option<u64>> {
    // SAFETY: a query only. No other code uses the descriptor's position.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from as i64, libc::SEEK_DATA) };
    if found >= 0 {
        return Ok(Some(found as u64));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => Ok(None),
        _ => Err(error),
    }
}

impl Source for Memory {
    fn next(&mut self, addr: u64, end: u64) -> Option<u64> {
        if addr >= end {
            return None;
        }
        let number = self.places.partition_point(|place| place.end <= addr);
        let place = *self.places.get(number)?;
        if self.found.as_ref().is_none_or(|(of, _)| *of != number) {
            let finding = self.finding(&place);
            self.found = Some((number, finding));
        }
        let next = match &mut self.found.as_mut()?.1 {
            Finding::Written(runs, at) => {
                while runs.get(*at).is_some_and(|run| run.1 <= addr) {
                    *at += 1;
                }
                runs.get(*at)?.0.max(addr)
            }
            Finding::Data(file, offset) => match data(file, addr - place.start + *offset) {
                Ok(found) => (found? - *offset + place.start).max(addr) & !(PAGE - 1),
                Err(_) => addr,
            },
            Finding::All => addr,
        };
        (next < end).then_some(next)
    }

    fn page(&mut self, addr: u64, into: &mut [u8; PAGE as usize]) -> bool {
        self.file.read_exact_at(into, addr).is_ok()
    }
}
