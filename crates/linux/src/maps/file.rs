//! `/proc/PID/maps`, kept open.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;

use super::{Area, Map};
use crate::living::Living;
use crate::{Tid, proc_file};

/// `/proc/PID/maps`, kept open: it stays with the address space that it was opened for.
///
/// It can be read as long as the thread by which it was opened is there. When that thread is gone,
/// it is opened by another one.
#[derive(Debug)]
pub struct MapsFile {
    file: File,
    living: Living,
}

/// The answer of `PROCMAP_QUERY` about the area at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaInfo {
    /// The first address.
    pub start: u64,
    /// The address behind the last one.
    pub end: u64,
    /// The file's device: the major number.
    pub major: u32,
    /// The file's device: the minor number.
    pub minor: u32,
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The size of its pages in bytes, if the kernel knows the question for one area.
    pub page_size: Option<u64>,
}

/// `struct procmap_query` (Documentation/filesystems/proc.rst; Linux 6.11 and later).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

impl Query {
    fn at(address: u64) -> Self {
        Self {
            size: size_of::<Self>() as u64,
            query_addr: address,
            ..Self::default()
        }
    }

    /// Returns them as maps prints them.
    fn permissions(&self) -> [u8; 4] {
        let letter = |bit: u64, yes: u8, no: u8| if self.vma_flags & bit != 0 { yes } else { no };
        [
            letter(1, b'r', b'-'),
            letter(2, b'w', b'-'),
            letter(4, b'x', b'-'),
            letter(8, b's', b'p'),
        ]
    }
}

const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611u32 as libc::Ioctl;

impl MapsFile {
    /// Opens the maps of a thread's address space.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn open(tid: Tid) -> io::Result<Self> {
        Ok(Self {
            file: open_maps(tid)?,
            living: Living::through(tid),
        })
    }

    /// Reads the whole map.
    ///
    /// # Errors
    /// Those of reading, and `InvalidData` for a line that is not one of maps.
    pub fn read(&mut self, map: &mut Map) -> io::Result<()> {
        loop {
            let read = map.refill(|text| {
                self.file.seek(SeekFrom::Start(0))?;
                proc_file::read_on(&mut self.file, text)
            });
            match read {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) && self.reopen() => {}
                read => return read,
            }
        }
    }

    /// Opens the file by a thread that is there. Returns `false` if there is none.
    fn reopen(&mut self) -> bool {
        let opened = self.living.ask(open_maps);
        opened.map(|file| self.file = file).is_ok()
    }

    /// Returns the area that covers `address`, from the whole map before Linux 6.11.
    ///
    /// # Errors
    /// Those of the question or of reading. A process that has ended has no areas.
    pub fn at(&mut self, address: u64) -> io::Result<Option<AreaInfo>> {
        match self.query(address) {
            // The kernel does not know the question.
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => self.look_through(address),
            answer => answer,
        }
    }

    /// Returns the same from the whole map.
    fn look_through(&mut self, address: u64) -> io::Result<Option<AreaInfo>> {
        let mut map = Map::default();
        self.read(&mut map)?;
        let covering = |area: &&Area| (area.start..area.end).contains(&address);
        Ok(map.areas().iter().find(covering).map(|area| AreaInfo {
            start: area.start,
            end: area.end,
            major: area.major,
            minor: area.minor,
            inode: area.inode,
            page_size: None,
        }))
    }

    /// Puts the areas of `[start, end)` into `map`, from the lowest on, at most one more than `most`.
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.11, `ESRCH` for a process that has ended, and those of a name that is too
    /// long.
    pub fn part(&self, (start, end): (u64, u64), most: usize, map: &mut Map) -> io::Result<()> {
        const OR_NEXT: u64 = 0x10;
        map.clear();
        let mut name = [0; 4096];
        let mut next = start;
        while next < end && map.areas().len() <= most {
            let query = Query {
                query_flags: OR_NEXT,
                vma_name_size: name.len() as u32,
                vma_name_addr: name.as_mut_ptr() as u64,
                ..Query::at(next)
            };
            // SAFETY: `name` is as long as the question says, and is used by nothing else until it is answered.
            let Some(found) = (unsafe { self.ask(query) })? else {
                return Ok(());
            };
            if found.vma_start >= end {
                return Ok(());
            }
            // With the zero byte behind it; 0 without a name.
            let length = (found.vma_name_size as usize).saturating_sub(1);
            let area = Area::new(
                found.vma_start,
                found.vma_end,
                found.permissions(),
                found.vma_offset,
                (found.dev_major, found.dev_minor, found.inode),
            );
            map.push(area, &name[..length.min(name.len())]);
            next = found.vma_end;
        }
        Ok(())
    }

    /// # Safety
    /// The buffers that `query` names are valid for writes, or there are none.
    unsafe fn ask(&self, mut query: Query) -> io::Result<Option<Query>> {
        // SAFETY: `query` is the struct that this ioctl takes; the caller promises its buffers.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(query))
    }

    fn query(&self, address: u64) -> io::Result<Option<AreaInfo>> {
        // SAFETY: there are no buffers for a name or a build-id.
        let query = match unsafe { self.ask(Query::at(address)) } {
            Ok(Some(query)) => query,
            Ok(None) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(AreaInfo {
            start: query.vma_start,
            end: query.vma_end,
            major: query.dev_major,
            minor: query.dev_minor,
            inode: query.inode,
            page_size: Some(query.vma_page_size),
        }))
    }
}

fn open_maps(tid: Tid) -> io::Result<File> {
    File::open(format!("/proc/{tid}/maps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_the_whole_map_agree() {
        let own = std::process::id() as Tid;
        let mut file = MapsFile::open(own).unwrap();
        let mut map = Map::default();
        file.read(&mut map).unwrap();
        let stack = crate::proc::layout(own).unwrap().start_stack;
        let area = map
            .areas()
            .iter()
            .find(|area| (area.start..area.end).contains(&stack))
            .unwrap();
        assert_eq!(map.name(area), b"[stack]");
        let info = file.at(stack).unwrap().unwrap();
        assert_eq!(info.end, area.end);
        assert_eq!(file.at(8).unwrap(), None);
        assert_eq!(info.page_size, crate::smaps::page_size(own, info.start));
        let unknown = AreaInfo {
            page_size: None,
            ..info
        };
        assert_eq!(file.look_through(stack).unwrap(), Some(unknown));
        assert_eq!(file.look_through(8).unwrap(), None);
        // The part that is the whole is the same.
        let mut part = Map::default();
        let known = map.areas().len();
        match file.part((0, u64::MAX), known + 100, &mut part) {
            Ok(()) => {
                let told = |map: &Map| {
                    let area = map.at(stack).unwrap();
                    (area.perms, map.name(area).to_vec(), area.offset)
                };
                assert_eq!(told(&part), told(&map));
                let programs = |map: &Map| {
                    let areas = map.areas().iter().filter(|area| area.inode != 0);
                    let told = areas.map(|area| {
                        let id = (area.major, area.minor, area.inode);
                        let range = (area.start, area.end, area.offset);
                        (range, area.perms, id, map.name(area).to_vec())
                    });
                    told.collect::<Vec<_>>()
                };
                assert_eq!(programs(&part), programs(&map));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY)),
        }
    }
}
