//! From a descriptor number of a traced program to the [`File`] that the engine knows.
//!
//! Looked up at the entry of `mmap`, because another thread may close the descriptor while the call runs. What the
//! descriptor says costs two system calls; everything else is remembered by identity.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Write};
use std::sync::Arc;

use samara_mm::{File, FileArg, FileId, FileKind, Object, ShmSegment};

use super::ptrace::Tid;

/// What makes two look-ups the same.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Key {
    device: u64,
    inode: u64,
    /// Size and change times are left out: only what `mmap` looks at counts.
    readable: bool,
    writable: bool,
    /// Stands for the open file description, which nothing that can be asked tells: areas of one file through
    /// different descriptions do not merge, and one number rarely stands for two of one file that continue each other.
    descriptor: i32,
    name: Box<[u8]>,
}

/// Files seen so far, over all traced processes.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: HashMap<Key, Known>,
    /// The last number given to an open file description.
    pub(crate) descriptions: u64,
    path: Vec<u8>,
}

#[derive(Debug)]
struct Known {
    file: Arc<File>,
    /// The kernel's map has shown this file under the same device and inode.
    confirmed: bool,
}

fn stat(path: &CStr, follow: bool) -> io::Result<libc::stat64> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: `path` ends with a zero byte and `stat` is a valid place for the answer.
    if unsafe { libc::fstatat64(libc::AT_FDCWD, path.as_ptr(), &mut stat, flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat)
}

impl Files {
    /// The descriptor argument of an `mmap` that looks at its descriptor.
    pub(crate) fn resolve(&mut self, tid: Tid, descriptor: i32) -> FileArg {
        if descriptor < 0 {
            return FileArg::Bad;
        }
        self.path.clear();
        let _ = write!(self.path, "/proc/{tid}/fd/{descriptor}\0");
        let Ok(path) = CStr::from_bytes_with_nul(&self.path) else {
            return FileArg::Bad;
        };
        // The link's permission bits say how the file was opened; O_PATH is neither for reading nor for writing.
        let Ok(link) = stat(path, false) else {
            return FileArg::Bad;
        };
        let readable = link.st_mode & 0o400 != 0;
        let writable = link.st_mode & 0o200 != 0;
        if !readable && !writable && opened_as_path(tid, descriptor) {
            return FileArg::Bad;
        }
        let Ok(object) = stat(path, true) else {
            return FileArg::Bad;
        };
        let mut name = vec![0; 512];
        loop {
            // SAFETY: `path` ends with a zero byte; the buffer and its length belong together.
            let length =
                unsafe { libc::readlink(path.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
            let Ok(length) = usize::try_from(length) else {
                return FileArg::Bad;
            };
            if length < name.len() {
                name.truncate(length);
                break;
            }
            name.resize(name.len() * 2, 0);
        }
        let key = Key {
            device: object.st_dev,
            inode: object.st_ino,
            readable,
            writable,
            descriptor,
            name: name.into(),
        };
        if let Some(known) = self.known.get(&key) {
            // Seals of a memfd may be added at any time: such files are looked at anew.
            if known.file.kind != FileKind::Shmem {
                return FileArg::File(Arc::clone(&known.file));
            }
        }
        let kind = kind(&object, path);
        let description = match self.known.get(&key) {
            Some(known) => known.file.description,
            None => {
                self.descriptions += 1;
                self.descriptions
            }
        };
        let file = Arc::new(File {
            description,
            id: FileId {
                major: libc::major(object.st_dev),
                minor: libc::minor(object.st_dev),
                inode: object.st_ino,
            },
            name: printed_name(&key.name),
            readable,
            writable,
            noexec: mounted_noexec(path),
            kind,
            seals: if kind == FileKind::Shmem {
                seals(tid, descriptor)
            } else {
                0
            },
            object: Object::none(),
        });
        let file = match self.known.get_mut(&key) {
            Some(known) if *known.file == *file => Arc::clone(&known.file),
            _ => {
                self.known.insert(
                    key,
                    Known {
                        file: Arc::clone(&file),
                        confirmed: false,
                    },
                );
                file
            }
        };
        FileArg::File(file)
    }

    /// Has the kernel's map not yet been seen to show `file` under the identity that `fstat` gave?
    /// (Some file systems show another device in the map.)
    pub(crate) fn unconfirmed(&mut self, file: &Arc<File>) -> bool {
        self.known
            .values()
            .any(|known| !known.confirmed && Arc::ptr_eq(&known.file, file))
    }

    /// Notes what the kernel's map shows for `file`, and returns the file with that identity.
    pub(crate) fn confirm(&mut self, file: &Arc<File>, id: FileId) -> Arc<File> {
        for known in self.known.values_mut() {
            if Arc::ptr_eq(&known.file, file) {
                if known.file.id != id {
                    known.file = Arc::new(File {
                        id,
                        ..(**file).clone()
                    });
                }
                known.confirmed = true;
                return Arc::clone(&known.file);
            }
        }
        Arc::clone(file)
    }
}

/// The name as `/proc/PID/maps` prints it: a newline in it is escaped.
fn printed_name(name: &[u8]) -> Box<str> {
    String::from_utf8_lossy(name)
        .replace('\n', "\\012")
        .into_boxed_str()
}

fn opened_as_path(tid: Tid, descriptor: i32) -> bool {
    fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}"))
        .ok()
        .and_then(|text| {
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            i32::from_str_radix(flags.trim(), 8).ok()
        })
        .is_some_and(|flags| flags & libc::O_PATH != 0)
}

fn file_system(path: &CStr) -> Option<libc::statfs64> {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut answer: libc::statfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte and `answer` is a valid place for the answer.
    (unsafe { libc::statfs64(path.as_ptr(), &mut answer) } == 0).then_some(answer)
}

fn mounted_noexec(path: &CStr) -> bool {
    const ST_NOEXEC: u64 = 8;
    file_system(path).is_some_and(|system| system.f_flags as u64 & ST_NOEXEC != 0)
}

fn kind(object: &libc::stat64, path: &CStr) -> FileKind {
    const TMPFS: i64 = 0x0102_1994;
    const HUGETLBFS: i64 = 0x9584_58f6_u32 as i64;
    /// ext4, xfs, btrfs.
    const ALIGNING: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];
    const DEV_ZERO: u64 = libc::makedev(1, 5);
    match object.st_mode & libc::S_IFMT {
        libc::S_IFREG => match file_system(path) {
            Some(system) if system.f_type == TMPFS => FileKind::Shmem,
            Some(system) if system.f_type == HUGETLBFS => FileKind::HugeTlb(system.f_bsize as u64),
            Some(system) if ALIGNING.contains(&system.f_type) => FileKind::Regular,
            _ => FileKind::Unaligned,
        },
        libc::S_IFCHR if object.st_rdev == DEV_ZERO => FileKind::DevZero,
        libc::S_IFCHR | libc::S_IFBLK => FileKind::Device,
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFLNK => FileKind::Unmappable,
        // Sockets of some families and anonymous inodes (perf events, rings) bring a mapping of their own.
        _ => FileKind::Device,
    }
}

/// `F_GET_SEALS` needs a descriptor of our own; no seals where the kernel gives none (5.6 and later can).
fn seals(tid: Tid, descriptor: i32) -> u32 {
    // pidfd_open wants the process, not one of its threads.
    let process = super::proc::family(tid).map_or(tid, |(process, _)| process);
    // SAFETY: calls with integers only; both descriptors are closed here.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, process, 0) as i32;
        if pidfd < 0 {
            return 0;
        }
        let copy = libc::syscall(libc::SYS_pidfd_getfd, pidfd, descriptor, 0) as i32;
        libc::close(pidfd);
        if copy < 0 {
            return 0;
        }
        let seals = libc::fcntl(copy, libc::F_GET_SEALS);
        libc::close(copy);
        u32::try_from(seals).unwrap_or(0)
    }
}

/// The System V segment with this identifier, as `/proc/sysvipc/shm` lists it.
pub(crate) fn segment(identifier: i64) -> Option<Arc<ShmSegment>> {
    let table = fs::read_to_string("/proc/sysvipc/shm").ok()?;
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
        let file = File {
            id: FileId {
                major: 0,
                minor: 1,
                inode: identifier as u64,
            },
            name: format!("/SYSV{:08x} (deleted)", key as u32).into_boxed_str(),
            readable: true,
            writable: true,
            noexec: false,
            kind: FileKind::Shmem,
            seals: 0,
            object: Object::none(),
            description: 0,
        };
        return Some(Arc::new(ShmSegment {
            file: Arc::new(file),
            size: fields.get(size)?.parse().ok()?,
        }));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn own() -> Tid {
        std::process::id() as Tid
    }

    fn resolved(file: &fs::File) -> Arc<File> {
        match Files::default().resolve(own(), file.as_raw_fd()) {
            FileArg::File(file) => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn regular_files_tell_how_they_were_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::write(&path, "x").unwrap();
        let read = resolved(&fs::File::open(&path).unwrap());
        assert!(read.readable && !read.writable);
        let write = resolved(&fs::OpenOptions::new().append(true).open(&path).unwrap());
        assert!(!write.readable && write.writable);
        assert_eq!(read.id, write.id);
        assert_eq!(&*read.name, path.to_str().unwrap());
        let open = fs::File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(resolved(&open).name.ends_with("data (deleted)"));
    }

    #[test]
    fn what_cannot_be_mapped_is_told_apart() {
        assert_eq!(Files::default().resolve(own(), -1), FileArg::Bad);
        assert_eq!(Files::default().resolve(own(), 9999), FileArg::Bad);
        assert_eq!(
            resolved(&fs::File::open("/").unwrap()).kind,
            FileKind::Unmappable
        );
        assert_eq!(
            resolved(&fs::File::open("/dev/zero").unwrap()).kind,
            FileKind::DevZero
        );
        assert_eq!(
            resolved(&fs::File::open("/dev/null").unwrap()).kind,
            FileKind::Device
        );
        // SAFETY: opens a path with constant arguments.
        let path_only = unsafe { libc::open(c"/bin/sh".as_ptr(), libc::O_PATH) };
        assert_eq!(Files::default().resolve(own(), path_only), FileArg::Bad);
        // SAFETY: the descriptor opened above.
        unsafe { libc::close(path_only) };
    }

    #[test]
    fn a_memfd_shows_its_seals() {
        // SAFETY: makes a memfd and seals it; closed below.
        let descriptor = unsafe {
            let descriptor = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
            libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
            descriptor
        };
        let FileArg::File(file) = Files::default().resolve(own(), descriptor) else {
            panic!("not open");
        };
        assert_eq!(file.kind, FileKind::Shmem);
        assert_eq!(file.seals, libc::F_SEAL_WRITE as u32);
        assert_eq!(&*file.name, "/memfd:sealed (deleted)");
        // SAFETY: the descriptor opened above.
        unsafe { libc::close(descriptor) };
    }
}
