//! What walkers tell and do, beside the running kernel, on one layout.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use samara_mm::abi::{MADV_COLLAPSE, MADV_MERGEABLE, MADV_UNMERGEABLE};
use samara_mm::observe::ClearRefs;
use samara_mm::process::Process;
use samara_mm::walkers::Ksm;
use samara_mm::{Call, PMD_SIZE};

use crate::world::{Disk, Hosted, PAGE, anonymous, machine, mapping, open, process};

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

#[test]
fn collapse_by_madvise() {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|text| !text.contains("[never]")) {
        println!("skipped: this kernel has no transparent huge pages");
        return;
    }
    // Which pages are written, which are read, and how the area is protected afterwards.
    let cases: [(&[u64], &[u64], i32); 6] = [
        (&[], &[], 3),
        (&[], &[0, 5], 3),
        (&[7], &[], 3),
        (&[0, 511], &[3, 4], 3),
        (&[1, 2, 3], &[], 1),
        (&[1], &[0], 0),
    ];
    for (written, read, prot) in cases {
        let start = reserve(512);
        map(start, 512, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let machine = machine(2 << 10);
        let process = process(&machine);
        process.perform(&anonymous(start, 512, 3)).unwrap();
        for (pages, write) in [(read, false), (written, true)] {
            for page in pages {
                touch(start + page * PAGE, write);
                if write {
                    process.copy_in(start + page * PAGE, &[1]);
                } else {
                    process.copy_out(start + page * PAGE, &mut [0]);
                }
            }
        }
        let protect = Call::Mprotect {
            addr: start,
            len: PMD_SIZE,
            prot: prot as u64,
            pkey: -1,
        };
        process.perform(&protect).unwrap();
        // SAFETY: memory of this test.
        let real = unsafe {
            assert_eq!(libc::mprotect(start as *mut _, PMD_SIZE as usize, prot), 0);
            match libc::madvise(start as *mut _, PMD_SIZE as usize, MADV_COLLAPSE) {
                0 => Ok(0),
                _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
            }
        };
        if matches!(real, Err(libc::ENOMEM | libc::EAGAIN | libc::EBUSY)) {
            println!("skipped: the kernel has no huge page for {written:?} now");
            continue;
        }
        let advice = Call::Madvise {
            addr: start,
            len: PMD_SIZE,
            advice: MADV_COLLAPSE,
        };
        let found = process.perform(&advice).map_err(|error| error.0);
        assert_eq!(found, real, "{written:?} {read:?} {prot}");
        let label = "AnonHugePages:";
        assert_eq!(engine_field(&process, label), field("smaps", start, label));
    }
}

/// A setting of the kernel's, until this is dropped.
struct Setting {
    path: &'static str,
    was: String,
}

impl Setting {
    fn new(path: &'static str, value: &str) -> Option<Self> {
        let was = fs::read_to_string(path).ok()?;
        fs::write(path, value).ok()?;
        Some(Setting { path, was })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, &self.was);
    }
}

/// Waits until the kernel has gone over all memory so many times; whether it does.
fn kernel_scans(times: u64) -> bool {
    let count = || -> Option<u64> {
        let text = fs::read_to_string("/sys/kernel/mm/ksm/full_scans").ok()?;
        text.trim().parse().ok()
    };
    let Some(before) = count() else { return false };
    (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        count().is_some_and(|now| now >= before + times)
    })
}

/// Frames of real pages, as `/proc/self/pagemap` has them; `None` for who may not know.
fn real_frames(start: u64, pages: u64) -> Option<Vec<u64>> {
    let file = fs::File::open("/proc/self/pagemap").unwrap();
    let mut bytes = vec![0; pages as usize * 8];
    file.read_exact_at(&mut bytes, start / PAGE * 8).unwrap();
    let (words, _) = bytes.as_chunks::<8>();
    let frame = |word: &[u8; 8]| u64::from_le_bytes(*word) & ((1 << 55) - 1);
    let frames: Vec<_> = words.iter().map(frame).collect();
    frames.iter().all(|&frame| frame != 0).then_some(frames)
}

/// Each frame as the first page that is on it.
fn who_shares(frames: &[u64]) -> Vec<usize> {
    let first = |frame| frames.iter().position(|other| other == frame).unwrap();
    frames.iter().map(first).collect()
}

/// What smaps says of each area of a range.
fn told(smaps: &str, labels: &[&str], start: u64, end: u64) -> Vec<String> {
    let (mut inside, mut found) = (false, Vec::new());
    for line in smaps.lines() {
        if let Some((from, _)) = line.split_once('-')
            && let Ok(from) = u64::from_str_radix(from, 16)
        {
            inside = (start..end).contains(&from);
        }
        if inside && labels.iter().any(|label| line.starts_with(label)) {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn equal_pages_are_merged() {
    const RUN: &str = "/sys/kernel/mm/ksm/run";
    let settings = [
        Setting::new("/sys/kernel/mm/ksm/sleep_millisecs", "1"),
        Setting::new("/sys/kernel/mm/ksm/pages_to_scan", "10000"),
        Setting::new(RUN, "0"),
    ];
    if settings.iter().any(Option::is_none) {
        println!("skipped: {RUN} is not there, or only root may change it");
        return;
    }
    let contents = [1, 2, 1, 1, 3, 2, 4, 1, 5, 5, 6, 1];
    let pages = contents.len() as u64;
    let start = reserve(pages);
    map(start, pages, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    let machine = machine(256);
    let process = process(&machine);
    process.perform(&anonymous(start, pages, 3)).unwrap();
    let mut ksm = Ksm::new(&machine);
    // Unlike what other programs have: they are scanned, too.
    let ours = u64::from(std::process::id()) << 32 | 0x9e37_79b9;
    let write = |page: u64, value: u64| {
        let bytes: Vec<u8> = (0..PAGE / 8)
            .flat_map(|word| ours.wrapping_mul(word << 8 | value).to_ne_bytes())
            .collect();
        let at = (start + page * PAGE) as *mut u8;
        // SAFETY: memory of this test, and as many bytes as a page has.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        assert_eq!(process.copy_in(start + page * PAGE, &bytes), bytes.len());
    };
    let advise = |page: u64, pages: u64, advice: i32| {
        let (addr, len) = (start + page * PAGE, pages * PAGE);
        // SAFETY: memory of this test.
        let real = unsafe { libc::madvise(addr as *mut _, len as usize, advice) };
        assert_eq!(real, 0);
        assert_eq!(process.perform(&Call::Madvise { addr, len, advice }), Ok(0));
    };
    let mut labels = vec![
        "Rss:",
        "Pss:",
        "Anonymous:",
        "KSM:",
        "Shared_Clean:",
        "Shared_Dirty:",
        "Private_Clean:",
        "Private_Dirty:",
    ];
    let compare = |when: &str, labels: &[&str]| {
        let real = real_frames(start, pages);
        let own: Vec<_> = (0..pages)
            .map(|page| process.translate(start + page * PAGE).unwrap().0)
            .collect();
        if let Some(real) = real {
            assert_eq!(who_shares(&own), who_shares(&real), "{when}");
        }
        let mut text = String::new();
        process.write_smaps(&mut text).unwrap();
        let real = fs::read_to_string("/proc/self/smaps").unwrap();
        let end = start + pages * PAGE;
        assert_eq!(
            told(&text, labels, start, end),
            told(&real, labels, start, end),
            "{when}"
        );
    };
    let scan = |ksm: &mut Ksm<Hosted>| {
        for _ in 0..2 {
            while !ksm.scan(5).unwrap().finished {}
        }
        // It stands still while pages are compared.
        fs::write(RUN, "1").unwrap();
        let done = kernel_scans(4);
        fs::write(RUN, "0").unwrap();
        done
    };
    for (page, &value) in (0..).zip(&contents) {
        write(page, value);
    }
    compare("before", &labels);
    advise(0, pages, MADV_MERGEABLE);
    if !scan(&mut ksm) {
        println!("skipped: this kernel's scan does not come round");
        return;
    }
    compare("merged", &labels);
    write(0, 1);
    write(5, 7);
    compare("written", &labels);
    // The entry of a page that is alone again is clean on Linux, which knows otherwise that it must not be lost.
    labels.truncate(4);
    advise(2, 3, MADV_UNMERGEABLE);
    compare("unmerged in part", &labels);
    assert!(scan(&mut ksm));
    compare("merged again", &labels);
    advise(0, pages, MADV_UNMERGEABLE);
    compare("unmerged", &labels);
}
