//! The kind of the file behind a descriptor of a traced program, by `/proc`, `stat` and `statfs`.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use samara_conformance::seed;
use samara_linux::Tid;
use samara_linux::maps::Area;
use samara_mm::FileKind;

use super::mounts::Served;

/// File systems by the numbers that `statfs` gives them.
const OVERLAY: i64 = 0x794c_7630;
const FUSE: i64 = 0x6573_5546;
const HUGETLBFS: i64 = 0x9584_58f6_u32 as i64;
const RAMFS: i64 = 0x8584_58f6_u32 as i64;

/// Returns the kind of the file behind a thread's descriptor, and `true` if its mount forbids
/// execution. `path` and `name` belong to the file, which no process serves.
pub(super) fn of_descriptor(
    (tid, descriptor): (Tid, i32),
    path: &CStr,
    name: &[u8],
    object: &libc::stat64,
) -> (FileKind, bool) {
    let system = file_system(path);
    let kind = if name == b"anon_inode:bpf-map" && is_arena(tid, descriptor) {
        FileKind::WholeDevice
    } else if let Some(kind) = seed::kind_of_driver(name) {
        kind
    } else if is_packet_socket(tid, object) {
        FileKind::PacketSocket
    } else {
        kind(object, system.as_ref())
    };
    (kind, is_noexec(system.as_ref()))
}

/// Returns the kind of a file. `system` is the file system of a regular file.
fn kind(object: &libc::stat64, system: Option<&libc::statfs64>) -> FileKind {
    const TMPFS: i64 = 0x0102_1994;
    /// ext4, xfs, btrfs.
    const ALIGNING: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];
    const SECRETMEM: i64 = 0x5345_434d;
    /// File systems whose files bring their own mappings: sysfs, procfs, debugfs, tracefs, and
    /// anonymous files that claim to be regular (memory of virtual machines, of devices).
    const DRIVEN: [i64; 6] = [
        0x6265_6572,
        0x9fa0,
        0x6462_6720,
        0x7472_6163,
        0x0904_1934,
        0x444d_4142,
    ];
    const DEV_ZERO: u64 = libc::makedev(1, 5);
    match object.st_mode & libc::S_IFMT {
        libc::S_IFREG => match system {
            Some(system) if system.f_type == TMPFS => FileKind::Shmem,
            Some(system) if system.f_type == HUGETLBFS => FileKind::HugeTlb(system.f_bsize as u64),
            Some(system) if ALIGNING.contains(&system.f_type) => FileKind::Regular,
            Some(system) if system.f_type == OVERLAY => FileKind::Stacked,
            Some(system) if system.f_type == FUSE => FileKind::Fuse,
            Some(system) if system.f_type == RAMFS => FileKind::Placed,
            Some(system) if system.f_type == SECRETMEM => FileKind::Secret,
            Some(system) if DRIVEN.contains(&system.f_type) => FileKind::Device,
            _ => FileKind::Unaligned,
        },
        libc::S_IFCHR if object.st_rdev == DEV_ZERO => FileKind::DevZero,
        libc::S_IFCHR | libc::S_IFBLK => FileKind::Device,
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFLNK => FileKind::Unmappable,
        // Sockets of some families and anonymous inodes (perf events, rings) bring their own
        // mappings.
        _ => FileKind::Device,
    }
}

/// Returns the kind of an open file, and its length in bytes.
pub(in crate::trace) fn kind_and_length(file: &fs::File) -> io::Result<(FileKind, u64)> {
    // SAFETY: all zeros is a valid value of these structs of integers.
    let (mut object, mut system): (libc::stat64, libc::statfs64) = unsafe { std::mem::zeroed() };
    // SAFETY: the call asks about a descriptor that `file` keeps open. `object` is a valid place
    // for the answer.
    if unsafe { libc::fstat64(file.as_raw_fd(), &mut object) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let told = unsafe { libc::fstatfs64(file.as_raw_fd(), &mut system) } == 0;
    let kind = kind(&object, told.then_some(&system));
    Ok((kind, object.st_size as u64))
}

/// Returns the kind of a file that is mapped in exactly this area, if its file system decides about
/// merges or the size of pages.
pub(in crate::trace) fn kind_of_mapped(tid: Tid, area: &Area) -> Option<FileKind> {
    let device = libc::makedev(area.major, area.minor);
    if area.inode != 0 && Served::default().holds(tid, device) {
        return Some(FileKind::Fuse);
    }
    let path = format!("/proc/{tid}/map_files/{:x}-{:x}", area.start, area.end);
    let system = file_system(&CString::new(path).ok()?)?;
    match system.f_type {
        OVERLAY => Some(FileKind::Stacked),
        FUSE => Some(FileKind::Fuse),
        RAMFS => Some(FileKind::Placed),
        HUGETLBFS => Some(FileKind::HugeTlb(system.f_bsize as u64)),
        _ => None,
    }
}

/// Returns `true` for a socket that the thread's network namespace lists as a packet socket.
fn is_packet_socket(tid: Tid, object: &libc::stat64) -> bool {
    if object.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return false;
    }
    let inode = object.st_ino.to_string();
    let listed = samara_linux::proc_file::read_text(format!("/proc/{tid}/net/packet"));
    // The inode is the last column.
    listed.is_ok_and(|text| {
        let mut inodes = text
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        inodes.any(|listed| listed == inode)
    })
}

fn file_system(path: &CStr) -> Option<libc::statfs64> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut answer: libc::statfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a valid place for the answer.
    (unsafe { libc::statfs64(path.as_ptr(), &mut answer) } == 0).then_some(answer)
}

/// Returns `true` for a file that is append-only (`chattr +a`). File systems that cannot express it
/// have no such files.
pub(super) fn is_append_only(path: &CStr) -> bool {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    let (at, into) = (libc::AT_FDCWD, &raw mut answer);
    // SAFETY: `path` ends with a zero byte, and `answer` is a valid place for the answer.
    let told = unsafe { libc::statx(at, path.as_ptr(), super::AS_KNOWN, 0, into) } == 0;
    told && answer.stx_attributes & libc::STATX_ATTR_APPEND as u64 != 0
}

fn is_noexec(system: Option<&libc::statfs64>) -> bool {
    const ST_NOEXEC: u64 = 8;
    system.is_some_and(|system| system.f_flags as u64 & ST_NOEXEC != 0)
}

/// Returns the seals of a file in memory. Only memfds can get seals. They belong to the file, not
/// to an open description.
pub(super) fn seals(path: &CStr, name: &[u8]) -> u32 {
    if !name.starts_with(b"/memfd:") {
        return 0;
    }
    path.to_str().ok().and_then(seals_at).unwrap_or(0)
}

fn seals_at(path: &str) -> Option<u32> {
    let file = fs::File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    // SAFETY: the call asks about a descriptor of our own, which `file` keeps open.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    u32::try_from(seals).ok()
}

/// Returns the seals of the file that is mapped in exactly this area, if this process may look
/// there.
pub(in crate::trace) fn seals_of_mapped(tid: Tid, (start, end): (u64, u64)) -> Option<u32> {
    seals_at(&format!("/proc/{tid}/map_files/{start:x}-{end:x}"))
}

/// Returns `true` for an arena among the BPF maps (`bpf_map_type` in bpf(2)'s header). Its areas
/// cannot be split, and its driver places them.
fn is_arena(tid: Tid, descriptor: i32) -> bool {
    const ARENA: &str = "33";
    let info = samara_linux::proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}"));
    info.is_ok_and(|info| {
        let kind = info.lines().find_map(|line| line.strip_prefix("map_type:"));
        kind.is_some_and(|kind| kind.trim() == ARENA)
    })
}

pub(super) fn opened_as_path(tid: Tid, descriptor: i32) -> bool {
    samara_linux::proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}"))
        .ok()
        .and_then(|text| {
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            i32::from_str_radix(flags.trim(), 8).ok()
        })
        .is_some_and(|flags| flags & libc::O_PATH != 0)
}
