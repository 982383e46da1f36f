//! Results and effects of walkers, compared with the running kernel, on one layout.
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the same mappings in this process and in the engine; what `/proc` tells of them |
//! | `ends` | what stores beyond the end of a file leave behind |
//! | `hollow` | tables that stay when the last of their pages has gone |
//! | `huge` | when huge pages come, and to whom they belong |
//! | `merged` | equal pages that become one |
//! | `nodes` | when `mbind` finds pages that lie elsewhere |

mod ends;
mod hollow;
mod huge;
mod merged;
mod nodes;

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use samara_mm::observe::ClearRefs;
use samara_mm::process::Process;
use samara_mm::{Call, PMD_SIZE};

use crate::world::{Disk, Hosted, PAGE, anonymous, machine, mapping, open, process};

/// Held for reading by tests that look at memory of this process, and for writing by those that have children: these have the pages of all tests in common for a
/// while, which shows.
static CHILDREN: RwLock<()> = RwLock::new(());

fn without_children() -> RwLockReadGuard<'static, ()> {
    CHILDREN.read().unwrap_or_else(PoisonError::into_inner)
}

fn with_children() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Real memory without access at an aligned place, to be mapped over.
fn reserve(pages: u64) -> u64 {
    let len = (pages * PAGE + 2 * PMD_SIZE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), len, 0, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        (start as u64 + PAGE).next_multiple_of(PMD_SIZE)
    }
}

fn map(start: u64, pages: u64, prot: i32, more: i32, fd: i32) {
    let flags = libc::MAP_FIXED | more;
    // SAFETY: within what was reserved.
    let at = unsafe { libc::mmap(start as *mut _, (pages * PAGE) as usize, prot, flags, fd, 0) };
    assert_eq!(at as u64, start);
}

fn touch(at: u64, write: bool) {
    // SAFETY: mapped memory of this test.
    unsafe {
        let at = at as *mut u8;
        let byte = at.read_volatile();
        if write {
            at.write_volatile(byte.wrapping_add(1));
        }
    }
}

/// The lines of a file of `/proc/self` that begin with one of these addresses.
fn lines(name: &str, start: u64, end: u64) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/self/{name}")).unwrap();
    text.lines()
        .filter(|line| {
            let first = line.split([' ', '-']).next().unwrap();
            u64::from_str_radix(first, 16).is_ok_and(|at| (start..end).contains(&at))
        })
        .map(str::to_owned)
        .collect()
}

fn field(name: &str, start: u64, label: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{name}")).unwrap();
    let from = text.find(&format!("{start:x}-")).unwrap();
    let line = text[from..]
        .lines()
        .find_map(|line| line.strip_prefix(label));
    line.unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn engine_field(process: &Process<Hosted>, label: &str) -> u64 {
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn lines_of_numa_maps() {
    let _guard = without_children();
    if fs::read_to_string("/proc/self/numa_maps").is_err() {
        println!("skipped: this kernel has no numa_maps");
        return;
    }
    let start = reserve(40);
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let machine = machine(256);
    let process = process(&machine);
    for (page, pages, prot) in [(0, 5, 3), (6, 3, 1), (10, 4, 0), (20, 10, 3)] {
        map(start + page * PAGE, pages, prot, private, -1);
        process
            .perform(&anonymous(start + page * PAGE, pages, prot as u64))
            .unwrap();
    }
    for (page, write) in [
        (0, true),
        (1, false),
        (2, true),
        (6, false),
        (20, true),
        (21, true),
    ] {
        touch(start + page * PAGE, write);
        let at = start + page * PAGE;
        if write {
            assert_eq!(process.copy_in(at, b"w"), 1);
        } else {
            assert_eq!(process.copy_out(at, &mut [0]), 1);
        }
    }
    let bind = |addr: u64, mode: u64| {
        let nodes = 1u64;
        // SAFETY: memory of this test.
        let done =
            unsafe { libc::syscall(libc::SYS_mbind, addr, PAGE, mode, &raw const nodes, 64, 0) };
        if done == 0 {
            process
                .perform(&Call::Mbind {
                    addr,
                    len: PAGE,
                    mode,
                    nodes,
                    flags: 0,
                })
                .unwrap();
        }
    };
    bind(start + 20 * PAGE, 2);
    bind(start + 22 * PAGE, 3);
    let real: Vec<String> = lines("numa_maps", start, start + 40 * PAGE)
        .iter()
        .map(|line| {
            let kept: Vec<_> = line
                .split(' ')
                .filter(|part| !part.starts_with("active="))
                .collect();
            kept.join(" ")
        })
        .collect();
    let mut text = String::new();
    process.write_numa_maps(|_| 0, &mut text).unwrap();
    assert!(text.lines().count() >= 4);
    // Between the areas lies what was reserved.
    let first = |line: &str| line.split(' ').next().map(str::to_owned);
    let ours: Vec<_> = text.lines().map(first).collect();
    let real: Vec<_> = real
        .into_iter()
        .filter(|line| ours.contains(&first(line)))
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), real);
}

#[test]
fn names_of_map_files() {
    let _guard = without_children();
    let start = reserve(40);
    let machine = machine(64);
    let process = process(&machine);
    let path = std::env::current_exe().unwrap();
    let real_file = fs::File::open(&path).unwrap();
    let disk = Disk::new(20 * 4096, false);
    let file = open(&disk);
    let fd = real_file.as_raw_fd();
    for (page, pages) in [(0, 3), (5, 2)] {
        map(start + page * PAGE, pages, 1, libc::MAP_PRIVATE, fd);
        process
            .perform(&mapping(&file, start + page * PAGE, 0, pages, 1, 2))
            .unwrap();
    }
    map(
        start + 8 * PAGE,
        1,
        3,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
    );
    process.perform(&anonymous(start + 8 * PAGE, 1, 3)).unwrap();
    map(
        start + 10 * PAGE,
        2,
        3,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        -1,
    );
    let shared = Call::Mmap {
        addr: start + 10 * PAGE,
        len: 2 * PAGE,
        prot: 3,
        flags: 0x31,
        file: samara_mm::FileArg::None,
        offset: 0,
    };
    process.perform(&shared).unwrap();
    let Ok(links) = fs::read_dir("/proc/self/map_files") else {
        println!("skipped: map_files cannot be listed here");
        return;
    };
    let within = |name: &String| {
        let first = name.split('-').next().unwrap();
        (start..start + 40 * PAGE).contains(&u64::from_str_radix(first, 16).unwrap())
    };
    let mut real: Vec<String> = links
        .map(|link| link.unwrap().file_name().into_string().unwrap())
        .filter(within)
        .collect();
    real.sort();
    let names: Vec<String> =
        process.with_space(|space| space.map_files().map(|link| link.to_string()).collect());
    assert_eq!(names, real);
}

#[test]
fn pages_referenced_after_their_marks_were_cleared() {
    let _guard = without_children();
    let start = reserve(16);
    map(start, 16, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(start, 16, 3)).unwrap();
    for page in 0..10 {
        touch(start + page * PAGE, true);
        process.copy_in(start + page * PAGE, b"w");
    }
    let both = |process: &Process<Hosted>| {
        let label = "Referenced:";
        (engine_field(process, label), field("smaps", start, label))
    };
    assert_eq!(both(&process), (40, 40));
    let cases = [
        ("1", ClearRefs::All),
        ("3", ClearRefs::Mapped),
        ("2", ClearRefs::Anonymous),
    ];
    for (number, what) in cases {
        if fs::write("/proc/self/clear_refs", number).is_err() {
            println!("skipped: clear_refs cannot be written here");
            return;
        }
        process.clear_refs(what).unwrap();
        let (engine, real) = both(&process);
        assert_eq!(engine, real, "{number}");
        // Processors forget that the pages were marked.
        for prot in [0, 3] {
            // SAFETY: memory of this test.
            let done = unsafe { libc::mprotect(start as *mut _, 16 * PAGE as usize, prot) };
            assert_eq!(done, 0);
        }
        for page in 2..5 {
            touch(start + page * PAGE, false);
            process.copy_out(start + page * PAGE, &mut [0]);
        }
        assert_eq!(both(&process), (12, 12), "{number}");
    }
}
