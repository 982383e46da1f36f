//! The objects to which histories refer by number: files, and segments of shared memory.

use std::fs::{self, File as StdFile};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;

use samara_mm::{Counted, DriverFlags, File, FileId, FileKind, Object, ShmSegment};

use crate::generate::HUGE;
use crate::op::{HUGE_FILES, Objects};

fn file(
    file: &StdFile,
    description: u64,
    name: &str,
    kind: FileKind,
    access: (bool, bool),
) -> Counted<File> {
    let meta = file.metadata().unwrap();
    Counted::try_new(File {
        id: FileId {
            major: libc::major(meta.dev()),
            minor: libc::minor(meta.dev()),
            inode: meta.ino(),
        },
        description: std::num::NonZeroU64::new(description),
        name: name.into(),
        readable: access.0,
        writable: access.1,
        noexec: kind == FileKind::Unmappable,
        kind,
        seals: 0,
        driver: DriverFlags::default(),
        object: Object::none(),
    })
    .unwrap()
}

/// Returns `true` if a file lies in tmpfs, whose mappings are not aligned for huge pages unless it
/// is mounted so.
fn in_memory(path: &std::path::Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte; zeroes are valid for the structure, which is ours.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(path.as_ptr(), &raw mut system), 0);
        system.f_type == TMPFS
    }
}

/// Files of huge pages, if the kernel has such: two, and the first one opened only for reading.
fn huge_files() -> Vec<(i32, Counted<File>)> {
    let kind = FileKind::HugeTlb(HUGE);
    let mut files = Vec::new();
    for access in [(true, true), (true, true), (true, false)] {
        let opened = match access {
            (_, true) => {
                // SAFETY: a constant name; the descriptor is new.
                let fd = unsafe { libc::memfd_create(c"huge".as_ptr(), libc::MFD_HUGETLB) };
                if fd < 0 {
                    return files;
                }
                // SAFETY: as above.
                unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
            }
            _ => {
                let first: i32 = files.first().map_or(-1, |file: &(i32, _)| file.0);
                StdFile::open(format!("/proc/self/fd/{first}")).unwrap()
            }
        };
        let number = (HUGE_FILES + files.len()) as u64;
        let described = file(&opened, number, "huge", kind, access);
        files.push((opened.into_raw_fd(), described));
    }
    files
}

pub(super) fn objects() -> Objects {
    let dir = std::env::temp_dir().join(format!("samara-oracle-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("file");
    StdFile::create(&path).unwrap().set_len(64 << 20).unwrap();
    let kind = if in_memory(&path) {
        FileKind::Shmem
    } else {
        FileKind::Regular
    };
    let mut files = Vec::new();
    let open = |read, write| {
        StdFile::options()
            .read(read)
            .write(write)
            .open(&path)
            .unwrap()
    };
    let mut add = |f: StdFile, kind, access| {
        let number = files.len() as u64 + 1;
        let file = file(&f, number, "file", kind, access);
        files.push((f.into_raw_fd(), file));
    };
    add(open(true, true), kind, (true, true));
    add(open(true, false), kind, (true, false));
    add(open(false, true), kind, (false, true));
    // SAFETY: a constant name; the descriptor is new.
    let memfd = unsafe {
        use std::os::fd::FromRawFd;
        StdFile::from_raw_fd(libc::memfd_create(c"oracle".as_ptr(), 0))
    };
    memfd.set_len(64 << 20).unwrap();
    add(memfd, FileKind::Shmem, (true, true));
    let zero = StdFile::options()
        .read(true)
        .write(true)
        .open("/dev/zero")
        .unwrap();
    add(zero, FileKind::DevZero, (true, true));
    add(
        StdFile::open("/proc").unwrap(),
        FileKind::Unmappable,
        (true, false),
    );
    // Opened once more, and the first one by another descriptor.
    add(open(true, true), kind, (true, true));
    // SAFETY: a constant name and integers; the descriptor is new.
    let sealed = unsafe {
        use std::os::fd::FromRawFd;
        let sealed = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
        libc::ftruncate(sealed, 64 << 20);
        libc::fcntl(sealed, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
        StdFile::from_raw_fd(sealed)
    };
    add(sealed, FileKind::Shmem, (true, true));
    if let Some(sealed) = files.last_mut().map(|file| &mut file.1) {
        let seals = libc::F_SEAL_WRITE as u32;
        let file = (**sealed).clone();
        *sealed = Counted::try_new(File { seals, ..file }).unwrap();
    }
    let first = files[0].clone();
    // SAFETY: a descriptor of ours.
    files.push((unsafe { libc::dup(first.0) }, first.1));
    let zero = StdFile::open("/dev/zero").unwrap();
    let number = files.len() as u64 + 1;
    let described = file(&zero, number, "file", FileKind::DevZero, (true, false));
    files.push((zero.into_raw_fd(), described));
    fs::remove_dir_all(&dir).unwrap();
    let huge = huge_files();
    let mut segments = Vec::new();
    for size in [3 * 4096, 0x5123] {
        // SAFETY: plain system calls. The segment is removed when it is no longer attached.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, size, 0o700);
            assert!(id >= 0);
            let meta = (0, 1);
            segments.push((
                id,
                Counted::try_new(ShmSegment {
                    file: Counted::try_new(File {
                        id: FileId {
                            major: meta.0,
                            minor: meta.1,
                            inode: id as u64,
                        },
                        description: None,
                        name: "/SYSV00000000 (deleted)".into(),
                        readable: true,
                        writable: true,
                        noexec: false,
                        kind: FileKind::Shmem,
                        seals: 0,
                        driver: DriverFlags::default(),
                        object: Object::none(),
                    })
                    .unwrap(),
                    size: size as u64,
                })
                .unwrap(),
            ));
            // Held attached here, and so usable although it is marked for removal.
            libc::shmat(id, std::ptr::null(), 0);
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
    Objects {
        files,
        huge,
        segments,
        start_brk: 0,
    }
}
