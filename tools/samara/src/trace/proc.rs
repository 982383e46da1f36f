//! Questions to `/proc/PID`: the map, the flags of areas, limits, the layout of a new program.

mod elsewhere;
mod faulting;
mod making;

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;

use samara_mm::{FileId, VmFlags};

use crate::living::Living;
use crate::maps::{Area, BadLine, Map};
use crate::proc_file;

use super::ptrace::Tid;

pub(crate) use elsewhere::{named_by, open_below};
pub(crate) use faulting::{Faulting, Faults};
use making::call_of;
pub(crate) use making::{Making, making, waits_for_others};

/// `/proc/PID/maps`, kept open: it stays with the address space that it was opened for.
///
/// It can be read as long as the thread is there by which it was opened. When that thread is gone,
/// it is opened by another one.
#[derive(Debug)]
pub(crate) struct MapsFile {
    file: File,
    living: Living,
}

/// What `PROCMAP_QUERY` says of the area at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AreaInfo {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    /// The size of its pages in bytes, if the kernel was asked for this area alone.
    pub(crate) page_size: Option<u64>,
}

impl AreaInfo {
    pub(crate) fn id(&self) -> FileId {
        FileId {
            major: self.major,
            minor: self.minor,
            inode: self.inode,
        }
    }
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

    /// As maps prints them.
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

const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;

impl MapsFile {
    pub(crate) fn open(tid: Tid) -> io::Result<Self> {
        Ok(Self {
            file: open_maps(tid)?,
            living: Living::through(tid),
        })
    }

    /// Reads the whole map.
    pub(crate) fn read(&mut self, map: &mut Map) -> io::Result<()> {
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

    /// The area that covers `address`, or `None`.
    pub(crate) fn at(&mut self, address: u64) -> io::Result<Option<AreaInfo>> {
        match self.query(address) {
            // The kernel does not know the question.
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => self.look_through(address),
            answer => answer,
        }
    }

    /// The same from the whole map.
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
    /// Of a kernel that does not know the question, of a process that has no map any more, or of a name that is too long.
    pub(crate) fn part(
        &self,
        (start, end): (u64, u64),
        most: usize,
        map: &mut Map,
    ) -> io::Result<()> {
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

impl From<BadLine> for io::Error {
    fn from(line: BadLine) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, line.to_string())
    }
}

/// The flags that smaps shows, by the start of their area. The protection key, which has a line of its own, is among them.
pub(crate) fn vm_flags(tid: Tid) -> io::Result<Vec<(u64, VmFlags)>> {
    let text = proc_file::read_long(format!("/proc/{tid}/smaps"))?;
    let text_of = |line| std::str::from_utf8(line).unwrap_or_default();
    let mut flags = Vec::new();
    let (mut start, mut key) = (0, VmFlags::empty());
    for line in text.split(|&byte| byte == b'\n') {
        // Most lines are of no interest, and the first letter tells.
        match line.first() {
            Some(b'V') => {
                if let Some(list) = line.strip_prefix(b"VmFlags:") {
                    flags.push((start, VmFlags::from_smaps(text_of(list)) | key));
                    key = VmFlags::empty();
                }
            }
            Some(b'P') => {
                if let Some(number) = line.strip_prefix(b"ProtectionKey:") {
                    let number: u64 = text_of(number).trim().parse().unwrap_or(0);
                    let bits = number << VmFlags::PKEY.bits().trailing_zeros();
                    key = VmFlags::from_bits_retain(bits) & VmFlags::PKEY;
                }
            }
            Some(b'0'..=b'9' | b'a'..=b'f') => {
                let end = line.iter().position(|&byte| byte == b'-').unwrap_or(0);
                start = u64::from_str_radix(text_of(&line[..end]), 16).unwrap_or(start);
            }
            _ => {}
        }
    }
    Ok(flags)
}

/// Returns the size in bytes of the pages of the area that begins at `start`, by smaps.
pub(crate) fn page_size(tid: Tid, start: u64) -> Option<u64> {
    let text = proc_file::read_long(format!("/proc/{tid}/smaps")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let first = format!("{start:08x}-");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&first));
    let size = lines.find_map(|line| line.strip_prefix("KernelPageSize:"))?;
    let kilobytes: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The private areas that have pages of their own, present or swapped out, by smaps: their ranges, ascending.
pub(crate) fn with_own_pages(tid: Tid) -> io::Result<Vec<(u64, u64)>> {
    let text = proc_file::read(format!("/proc/{tid}/smaps"))?;
    let text = String::from_utf8_lossy(&text);
    let hex = |number| u64::from_str_radix(number, 16).ok();
    let mut areas: Vec<(u64, u64)> = Vec::new();
    let (mut current, mut private) = ((0, 0), false);
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "Anonymous:" | "Swap:" => {
                if rest.trim() != "0 kB" && private && areas.last() != Some(&current) {
                    areas.push(current);
                }
            }
            _ => {
                if let Some((start, end)) = first.split_once('-')
                    && let (Some(start), Some(end)) = (hex(start), hex(end))
                {
                    current = (start, end);
                    private = rest.as_bytes().get(3) == Some(&b'p');
                }
            }
        }
    }
    Ok(areas)
}

/// Does an address lie in private memory of no file?
pub(crate) fn is_anonymous(tid: Tid, address: u64) -> io::Result<bool> {
    let text = proc_file::read(format!("/proc/{tid}/maps"))?;
    let text = String::from_utf8_lossy(&text);
    let hex = |number| u64::from_str_radix(number, 16).ok();
    let anonymous = text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        if !(hex(start)?..hex(end)?).contains(&address) {
            return None;
        }
        let (permissions, inode) = (fields.next()?, fields.nth(2)?);
        Some(permissions.ends_with('p') && inode == "0")
    });
    Ok(anonymous == Some(true))
}

/// Soft resource limits that bear on memory, in bytes; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawLimits {
    pub(crate) address_space: u64,
    pub(crate) data: u64,
    pub(crate) stack: u64,
    pub(crate) memlock: u64,
}

/// Reads a process's limits.
pub(crate) fn limits(tid: Tid) -> io::Result<RawLimits> {
    // The call is refused for another user's process without CAP_SYS_RESOURCE; the file is not.
    asked_limits(tid)
        .or_else(|_| listed_limits(&proc_file::read_text_piece(format!("/proc/{tid}/limits"))?))
}

/// From `/proc/PID/limits`: a name of 26 columns, the soft limit, the hard one, the unit.
fn listed_limits(text: &str) -> io::Result<RawLimits> {
    let one = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        match line.and_then(|line| line.split_ascii_whitespace().next()) {
            Some("unlimited") => Ok(u64::MAX),
            Some(number) => number
                .parse()
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    Ok(RawLimits {
        address_space: one("Max address space ")?,
        data: one("Max data size ")?,
        stack: one("Max stack size ")?,
        memlock: one("Max locked memory ")?,
    })
}

fn asked_limits(tid: Tid) -> io::Result<RawLimits> {
    let one = |resource| {
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: asks only (no new limit); `limit` is a valid place for the answer.
        let result = unsafe { libc::prlimit64(tid, resource, std::ptr::null(), &mut limit) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(limit.rlim_cur)
    };
    Ok(RawLimits {
        address_space: one(libc::RLIMIT_AS)?,
        data: one(libc::RLIMIT_DATA)?,
        stack: one(libc::RLIMIT_STACK)?,
        memlock: one(libc::RLIMIT_MEMLOCK)?,
    })
}

/// Numbers that exec sets and that no map shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProgramLayout {
    pub(crate) start_brk: u64,
    pub(crate) start_stack: u64,
    /// Size of the initialised data in bytes.
    pub(crate) data_size: u64,
    /// Where its arguments lie: start and end.
    pub(crate) arguments: (u64, u64),
    /// And its environment.
    pub(crate) environment: (u64, u64),
}

/// From `/proc/PID/stat` (proc_pid_stat(5)): fields 28 and 45 to 51.
pub(crate) fn layout(tid: Tid) -> io::Result<ProgramLayout> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/stat"))?;
    // The name, field 2, may hold anything, parentheses too: count from behind it.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let mut fields = after.split_ascii_whitespace();
    let mut field = |number: usize, passed: usize| -> u64 {
        fields
            .nth(number - passed - 1)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let start_stack = field(28, 2);
    let start_data = field(45, 28);
    let end_data = field(46, 45);
    let start_brk = field(47, 46);
    let arguments = (field(48, 47), field(49, 48));
    let environment = (field(50, 49), field(51, 50));
    Ok(ProgramLayout {
        start_brk,
        start_stack,
        data_size: end_data.saturating_sub(start_data),
        arguments,
        environment,
    })
}

/// Is it a program for i386, with 32-bit addresses? By its first bytes.
pub(crate) fn is_narrow(head: &[u8]) -> bool {
    const I386: [u8; 2] = 3u16.to_le_bytes();
    head.get(18..20) == Some(&I386)
}

/// The auxiliary vector (getauxval(3)): keys and values.
pub(crate) fn auxiliary_vector(tid: Tid) -> io::Result<Vec<(u64, u64)>> {
    let bytes = proc_file::read_piece(format!("/proc/{tid}/auxv"))?;
    // In a vector of 32-bit words the first value, an address, is where the upper half of the first key would be.
    let half = |word: &[u8]| word.try_into().map_or(0, u32::from_ne_bytes);
    if bytes.get(4..8).is_some_and(|upper| half(upper) != 0) {
        let entries = bytes.chunks_exact(8);
        return Ok(entries
            .map(|entry| (half(&entry[..4]).into(), half(&entry[4..]).into()))
            .collect());
    }
    let word = |word: &[u8]| word.try_into().map_or(0, u64::from_ne_bytes);
    let entries = bytes.chunks_exact(16);
    Ok(entries
        .map(|entry| (word(&entry[..8]), word(&entry[8..])))
        .collect())
}

/// Effective capabilities, as a bit set (capabilities(7)), of a thread or of the caller (0).
///
/// `/proc/PID/status` has them, too, among much that the kernel must look together first.
pub(crate) fn capabilities(tid: Tid) -> io::Result<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header: [u32; 2] = [VERSION_3, tid as u32];
    // Effective, permitted and inheritable ones, of which each has 32; then the other 32.
    let mut sets = [0u32; 6];
    // SAFETY: `header` and `sets` are what this version of the call takes.
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(sets[3]) << 32 | u64::from(sets[0]))
}

/// How many seccomp filters a thread has.
pub(crate) fn filters(tid: Tid) -> io::Result<u64> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    status_field(&status, "Seccomp_filters:")
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Are pages of all areas merged by their contents (`PR_SET_MEMORY_MERGE`)? Older kernels do not tell.
pub(crate) fn merges_any(tid: Tid) -> Option<bool> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/ksm_stat")).ok()?;
    let told = text
        .lines()
        .find_map(|line| line.strip_prefix("ksm_merge_any:"))?;
    Some(told.trim() == "yes")
}

/// Is the thread in the user namespace that was there first? Only there do privileges bear on memory.
pub(crate) fn in_first_user_namespace(tid: Tid) -> bool {
    // The kernel gives this one a number of its own.
    const FIRST: &str = "user:[4026531837]";
    fs::read_link(format!("/proc/{tid}/ns/user")).map_or(true, |link| link.as_os_str() == FIRST)
}

/// The process that a descriptor of a thread stands for (`pidfd_open(2)`).
pub(crate) fn process_of(tid: Tid, descriptor: i32) -> Option<Tid> {
    let info = proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    status_field(&info, "Pid:")?.parse().ok()
}

/// The process that a thread belongs to, and that process's parent.
pub(crate) fn family(tid: Tid) -> io::Result<(Tid, Tid)> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    let number = |name| {
        status_field(&status, name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    Ok((number("Tgid:"), number("PPid:")))
}

/// Have two threads one address space?
pub(crate) fn is_same_memory(one: Tid, other: Tid) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: takes integers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    order == 0
}

/// Does a process, by its first thread, have the address space of this thread?
pub(crate) fn shares_memory(tid: Tid, process: Tid) -> bool {
    const KCMP_VM: libc::c_int = 1;
    let of = |tid| family(tid).ok().map(|(process, _)| process);
    if of(process) != Some(process) {
        return false;
    }
    // SAFETY: takes integers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, tid, process, KCMP_VM, 0, 0) };
    match order {
        // The kernel was built without it, or one of them has ended.
        -1 => of(tid) == Some(process),
        order => order == 0,
    }
}

/// The threads of a process.
pub(crate) fn threads(process: Tid) -> io::Result<Vec<Tid>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        threads.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|tid| tid.parse::<Tid>().ok()),
        );
    }
    Ok(threads)
}

/// Who traces a thread (0: nobody), to which process it belongs, its real user, and the letter of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) tracer: Tid,
    pub(crate) process: Tid,
    pub(crate) user: u32,
    pub(crate) state: char,
}

pub(crate) fn condition(tid: Tid) -> io::Result<Condition> {
    let status = proc_file::read_text_piece(format!("/proc/{tid}/status"))?;
    let number = |name| {
        let field = status_field(&status, name)?;
        field.split_ascii_whitespace().next()?.parse::<u32>().ok()
    };
    Ok(Condition {
        tracer: number("TracerPid:").unwrap_or(0) as Tid,
        process: number("Tgid:").unwrap_or(0) as Tid,
        user: number("Uid:").unwrap_or(0),
        state: status_field(&status, "State:")
            .and_then(|text| text.chars().next())
            .unwrap_or('?'),
    })
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Does a thread run, or is it about to, and neither sleep nor stand?
pub(crate) fn is_running(tid: Tid) -> bool {
    stat_of(tid).is_some_and(|stat| stat.state == b'R')
}

/// Is a thread gone, or nothing left of it but its number?
pub(crate) fn is_dead(tid: Tid) -> bool {
    stat_of(tid).is_none_or(|stat| matches!(stat.state, b'Z' | b'X'))
}

/// What proc_pid_stat(5) tells of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadStat {
    /// The letter for what it does.
    state: u8,
    /// For how many ticks it has run, in the kernel or not.
    ran: u64,
}

/// Returns it for the thread alone; `None` if the thread is gone.
fn stat_of(tid: Tid) -> Option<ThreadStat> {
    // In the other such file the kernel sums up all threads of the process.
    let text = proc_file::read_text_piece(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
    // Behind the name, which may hold parentheses: the third field and those that follow it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.bytes().next()?;
    let mut ticks = fields.skip(10).map(|field| field.parse::<u64>().ok());
    Some(ThreadStat {
        state,
        ran: ticks.next()?? + ticks.next()??,
    })
}

/// `personality(2)` of a process.
pub(crate) fn personality(tid: Tid) -> io::Result<u64> {
    let text = proc_file::read_text_piece(format!("/proc/{tid}/personality"))?;
    Ok(u64::from_str_radix(text.trim(), 16).unwrap_or(0))
}

/// A number of `/proc/sys`, or `other` where it is missing.
pub(crate) fn sysctl(name: &str, other: u64) -> u64 {
    proc_file::read_text_piece(format!("/proc/sys/{name}"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(other)
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
        let stack = layout(own).unwrap().start_stack;
        let area = map
            .areas()
            .iter()
            .find(|area| (area.start..area.end).contains(&stack))
            .unwrap();
        assert_eq!(map.name(area), b"[stack]");
        let info = file.at(stack).unwrap().unwrap();
        assert_eq!(info.end, area.end);
        assert_eq!(file.at(8).unwrap(), None);
        assert_eq!(info.page_size, page_size(own, info.start));
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
        assert!(!vm_flags(own).unwrap().is_empty());
        let listed = proc_file::read_text("/proc/self/limits").unwrap();
        assert_eq!(listed_limits(&listed).unwrap(), asked_limits(own).unwrap());
        assert_eq!(family(own).unwrap().0, own);
        let status = proc_file::read_text("/proc/self/status").unwrap();
        let listed = status_field(&status, "CapEff:").unwrap();
        let asked = capabilities(own).unwrap();
        assert_eq!(u64::from_str_radix(listed, 16), Ok(asked));
        assert_eq!(capabilities(0).unwrap(), asked);
    }
}
