//! Merging of equal pages, compared with the kernel's own scan.

#[path = "../../common/machine.rs"]
mod machine_wide;

use std::fs;
use std::os::unix::fs::FileExt;

use samara_mm::Call;
use samara_mm::abi::{MADV_MERGEABLE, MADV_UNMERGEABLE};
use samara_mm::walkers::Ksm;

use super::{map, reserve};
use crate::world::{Hosted, PAGE, anonymous, machine, process};

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

/// Waits until the kernel has scanned all memory this many times. Returns `true` if it has.
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

/// Returns the values of these labels in smaps, for each area of a range.
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
    let _guard = super::without_children();
    const RUN: &str = "/sys/kernel/mm/ksm/run";
    let _lock = match machine_wide::lock("ksm") {
        Ok(lock) => lock,
        Err(error) => return println!("skipped: {error}"),
    };
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
    // It has come round before, and takes as long as others let it.
    while !scan(&mut ksm) {}
    compare("merged again", &labels);
    advise(0, pages, MADV_UNMERGEABLE);
    compare("unmerged", &labels);
}
