//! Memory accounting, compared with the kernel's records of ended processes.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};

use super::kernel::model_of;

/// `struct acct_v3` (acct(5)): its bytes, its version, and where the memory is.
const RECORD: usize = 64;
const VERSION: usize = 1;
const MEMORY: usize = 36;

/// KiB that processes map besides what they have anyway.
const SIZES: [u64; 14] = [
    0,
    4,
    3000,
    4096,
    8 << 10,
    (64 << 10) - 4,
    (512 << 10) - 4,
    1 << 20,
    123_456_788,
    1 << 30,
    (1 << 33) - 4,
    1 << 34,
    1 << 35,
    80 << 30,
];

/// Sends all of a file that can be read through.
///
/// # Safety
/// `name` ends in a zero.
unsafe fn send(name: &[u8], to: i32) {
    // SAFETY: descriptors of this process alone, and memory of this function.
    unsafe {
        let from = libc::open(name.as_ptr().cast(), libc::O_RDONLY);
        let mut buffer = [0u8; 4096];
        loop {
            let read = libc::read(from, buffer.as_mut_ptr().cast(), buffer.len());
            if read <= 0 {
                break;
            }
            libc::write(to, buffer.as_ptr().cast(), read as usize);
        }
        libc::close(from);
    }
}

/// The first process of a new namespace, whose accounting concerns no other process. Its children
/// map memory, report their maps and end, one after the other. The exit code says if the kernel let
/// it.
///
/// # Safety
/// In a child of a fork.
unsafe fn account(file: &CString, to: i32) -> ! {
    // SAFETY: after a fork, only system calls are made.
    unsafe {
        if libc::acct(file.as_ptr()) != 0 {
            libc::_exit(1);
        }
        for size in SIZES {
            let child = libc::fork();
            if child == 0 {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                let len = (size as usize) << 10;
                let at = libc::mmap(std::ptr::null_mut(), len, 0, flags, -1, 0);
                if size != 0 && at == libc::MAP_FAILED {
                    libc::_exit(1);
                }
                send(b"/proc/self/maps\0", to);
                libc::write(to, b"end\n".as_ptr().cast(), 4);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            if status != 0 {
                libc::_exit(2);
            }
        }
        libc::_exit(0)
    }
}

/// A folder in which the kernel accounts: where less of the file system is free than the first number says (proc(5)), it may pause, by itself and without a word.
fn with_room() -> Option<PathBuf> {
    let limits = std::fs::read_to_string("/proc/sys/kernel/acct").ok()?;
    let enough: u64 = limits.split_whitespace().next()?.parse().ok()?;
    let folders = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    folders.into_iter().find(|folder| {
        let name = CString::new(folder.as_os_str().as_bytes()).unwrap();
        // SAFETY: a name that ends in a zero, and room for the answer.
        let told = unsafe {
            let mut told: libc::statvfs = std::mem::zeroed();
            (libc::statvfs(name.as_ptr(), &raw mut told) == 0).then_some(told)
        };
        told.is_some_and(|told| told.f_bavail > told.f_blocks * enough / 100)
    })
}

#[test]
fn the_kernel_accounts_the_same() {
    let Some(folder) = with_room() else {
        println!("skipped: no file system has the room that the kernel wants to account");
        return;
    };
    let path = folder.join(format!("samara-acct-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let file = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors; then children that only make system calls and end.
    let (status, texts) = unsafe {
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let outer = libc::fork();
        if outer == 0 {
            if libc::unshare(libc::CLONE_NEWPID) != 0 {
                libc::_exit(1);
            }
            let first = libc::fork();
            if first == 0 {
                account(&file, pipe[1]);
            }
            let mut status = 0;
            libc::waitpid(first, &raw mut status, 0);
            libc::_exit(libc::WEXITSTATUS(status));
        }
        libc::close(pipe[1]);
        let mut texts = String::new();
        std::fs::File::from_raw_fd(pipe[0])
            .read_to_string(&mut texts)
            .unwrap();
        let mut status = 0;
        libc::waitpid(outer, &raw mut status, 0);
        (libc::WEXITSTATUS(status), texts)
    };
    let records = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if status == 1 {
        println!("skipped: this user may not account for processes, or the kernel does not");
        return;
    }
    assert_eq!(status, 0);
    let memory = |record: &[u8]| u16::from_le_bytes([record[MEMORY], record[MEMORY + 1]]);
    // Behind them comes the namespace's first process.
    let records: Vec<&[u8]> = records.chunks_exact(RECORD).collect();
    assert!(records.iter().all(|record| record[VERSION] & 0xf == 3));
    let texts: Vec<&str> = texts.split_terminator("end\n").collect();
    assert_eq!(texts.len(), SIZES.len());
    assert!(records.len() >= texts.len());
    for (text, record) in texts.iter().zip(records) {
        let acct = model_of(text).acct();
        assert_eq!(acct.ac_mem(), memory(record), "{} KiB", acct.kib());
    }
}

#[test]
fn each_size_is_rounded_to_what_the_record_can_tell() {
    let of = |kib: u64| {
        let (config, limits) = (Config::default(), Limits::default());
        let mut space = AddressSpace::new(config, limits, Layout::default()).unwrap();
        if kib > 0 {
            space
                .mmap(&MmapOptions::anonymous(kib << 10).fixed(1 << 20))
                .unwrap();
        }
        assert_eq!(space.acct().kib(), kib);
        space.acct().ac_mem()
    };
    let value = |told: u16| u64::from(told & 0x1fff) << (3 * (told >> 13));
    let mut kib = 4;
    while kib < 1 << 36 {
        for kib in [kib - 4, kib, kib + 4] {
            let told = of(kib);
            if kib >> 34 != 0 {
                assert_eq!(told, u16::MAX, "{kib}");
                continue;
            }
            let told = value(told);
            // Half of what the last of 13 bits stands for, which is the eighth part of 4,096 or less.
            assert!(told.abs_diff(kib) <= kib >> 10, "{kib}: {told}");
        }
        kib *= 2;
    }
    assert_eq!(of(0), 0);
}
