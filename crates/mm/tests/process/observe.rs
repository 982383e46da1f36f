//! Walks over pages, compared with naive ones: page by page, each with its own look-up.

use std::ops::ControlFlow;

use samara_mm::observe::Seen;
use samara_mm::process::{ForkMode, PageStatus, Process};
use samara_mm::{Call, Errno};

use crate::world::{BASE, Disk, Hosted, PAGE, anonymous, machine, mapping, open, process};

const PAGES: u64 = 600;

/// The state of a page: not mapped, mapped, in memory, or a guard.
type State = u8;

fn walked(process: &Process<Hosted>, start: u64, end: u64) -> Vec<State> {
    let mut states = vec![0; ((end - start) / PAGE) as usize];
    let mut last = start;
    let mut set = |at: u64, to: u64, state: State| {
        let range = (at.max(start) - start) / PAGE..(to.min(end).max(start) - start) / PAGE;
        for i in range {
            states[i as usize] = state;
        }
    };
    let _ = process.walk(start..end, |seen| {
        match seen {
            Seen::Hole(range) => {
                assert!(range.start < range.end && range.start >= last);
                last = range.end;
            }
            Seen::Area(line) => {
                assert!(line.end > last);
                last = line.start.max(start);
                set(line.start, line.end, 1);
            }
            Seen::Page(at, _) => {
                assert!(at >= last);
                last = at + PAGE;
                set(at, at + PAGE, 2);
            }
            Seen::Guard(at) => {
                last = at + PAGE;
                set(at, at + PAGE, 3);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    states
}

fn naive(process: &Process<Hosted>, start: u64, end: u64, guards: &[u64]) -> Vec<State> {
    let page = |at| {
        if process.page(at).contains(PageStatus::PRESENT) {
            2
        } else if guards.contains(&at) {
            3
        } else {
            let mapped = process.with_space(|space| space.lookup(at).is_some());
            u8::from(mapped)
        }
    };
    (start..end).step_by(PAGE as usize).map(page).collect()
}

/// Areas of several kinds with some pages, guards and a huge page.
fn world() -> (Process<Hosted>, Vec<u64>) {
    let machine = machine(8 << 10);
    let process = process(&machine);
    let disk = Disk::new(20 * 4096, true);
    let file = open(&disk);
    for call in [
        anonymous(BASE, 40, 3),
        anonymous(BASE + 50 * PAGE, 30, 3),
        mapping(&file, BASE + 80 * PAGE, 2, 10, 3, 1),
        mapping(&file, BASE + 95 * PAGE, 0, 10, 3, 2),
        anonymous(BASE + 512 * PAGE, 512, 3),
        Call::Madvise {
            addr: BASE + 512 * PAGE,
            len: 512 * PAGE,
            advice: 14,
        },
        Call::Madvise {
            addr: BASE + 60 * PAGE,
            len: 2 * PAGE,
            advice: 102,
        },
    ] {
        process.perform(&call).unwrap();
    }
    for page in [0, 3, 4, 39, 55, 79, 81, 96, 97, 515] {
        assert_eq!(process.copy_in(BASE + page * PAGE, &[7]), 1);
    }
    let mut byte = [0];
    for page in [10, 83, 99] {
        assert_eq!(process.copy_out(BASE + page * PAGE, &mut byte), 1);
    }
    (process, vec![BASE + 60 * PAGE, BASE + 61 * PAGE])
}

#[test]
fn a_walk_sees_what_looking_page_by_page_finds() {
    let (process, guards) = world();
    let all = (BASE - 8 * PAGE, BASE + (PAGES + 8) * PAGE);
    assert_eq!(
        walked(&process, all.0, all.1),
        naive(&process, all.0, all.1, &guards)
    );
    let mut x = 1u64;
    for _ in 0..200 {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let start = BASE + (x >> 33) % PAGES * PAGE;
        let end = (start + (x >> 50) % 90 * PAGE).max(start);
        assert_eq!(
            walked(&process, start, end),
            naive(&process, start, end, &guards)
        );
    }
    // It ends where it is told to.
    let mut seen = 0;
    let ended = process.walk(all.0..all.1, |_| {
        seen += 1;
        match seen {
            5 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!((ended, seen), (ControlFlow::Break(()), 5));
}

#[test]
fn the_page_map_has_a_word_for_each_page() {
    let (process, guards) = world();
    let mut words = vec![!0; PAGES as usize];
    process.pagemap(BASE, &mut words).unwrap();
    for (i, word) in words.into_iter().enumerate() {
        let at = BASE + i as u64 * PAGE;
        let page = process.page(at);
        let bit = |n: u32| word >> n & 1 == 1;
        assert_eq!(bit(63), page.contains(PageStatus::PRESENT), "{at:x}");
        assert_eq!(bit(61), page.contains(PageStatus::FILE), "{at:x}");
        assert_eq!(bit(56), page.contains(PageStatus::EXCLUSIVE), "{at:x}");
        assert_eq!(bit(55), page.contains(PageStatus::SOFT_DIRTY), "{at:x}");
        assert_eq!(bit(58), guards.contains(&at), "{at:x}");
        assert_eq!(bit(62), guards.contains(&at), "{at:x}");
        if let Some((phys, _)) = process.translate(at) {
            assert_eq!(word & ((1 << 55) - 1), phys / PAGE, "{at:x}");
        }
    }
    assert_eq!(process.pagemap(BASE + 1, &mut [0]), Err(Errno::EINVAL));
    // Nothing is beyond the end.
    let mut beyond = [!0; 4];
    process.pagemap(!0 - 0xfff, &mut beyond).unwrap();
    assert_eq!(beyond, [0; 4]);
}

#[test]
fn a_rollup_is_the_sum_of_all_areas() {
    let (process, _) = world();
    let child = process.fork(ForkMode::Copy).unwrap();
    for process in [&process, &child] {
        let mut text = String::new();
        process.write_smaps(&mut text).unwrap();
        let rollup = process.rollup().unwrap().to_string();
        let number =
            |line: &str| -> u64 { line.split_whitespace().nth(1).unwrap().parse().unwrap() };
        for line in rollup.lines().skip(1) {
            let label = line.split(':').next().unwrap();
            let parts = text.lines().filter(|l| l.split(':').next() == Some(label));
            let (count, sum) = parts
                .map(number)
                .fold((0, 0), |(n, sum), x| (n + 1, sum + x));
            match label {
                "Pss_Anon" | "Pss_File" | "Pss_Shmem" => assert_eq!(count, 0),
                // Each area's is rounded down.
                "Pss" | "Pss_Dirty" => {
                    assert!((sum..sum + count).contains(&number(line)), "{line}");
                }
                _ => assert_eq!(sum, number(line), "{line}"),
            }
        }
        let part = |label: &str| {
            let line = rollup.lines().find(|line| line.starts_with(label)).unwrap();
            number(line)
        };
        let parts = part("Pss_Anon:") + part("Pss_File:") + part("Pss_Shmem:");
        assert!((parts..parts + 3).contains(&part("Pss:")), "{rollup}");
        let memory = process.memory();
        assert_eq!(memory.resident() * 4, part("Rss:"));
        assert_eq!(memory.anon * 4, part("Anonymous:"));
        assert!(memory.shmem > 0);
        let status = memory.to_string();
        assert!(
            status.contains(&format!("VmRSS:\t{:>8} kB\n", part("Rss:"))),
            "{status}"
        );
    }
    let empty = crate::world::process(process.machine());
    assert!(empty.rollup().is_none());
}

#[test]
fn rollups_have_the_kernels_lines() {
    let Ok(kernel) = std::fs::read_to_string("/proc/self/smaps_rollup") else {
        return;
    };
    let (process, _) = world();
    let ours = process.rollup().unwrap().to_string();
    let shape = |text: &str| -> Vec<String> {
        let words = |line: &str| {
            let label = line.split(':').next().unwrap_or_default().to_owned();
            (label, line.len())
        };
        let lines = text.lines().skip(1).map(words);
        lines
            .map(|(label, length)| format!("{label} {length}"))
            .collect()
    };
    assert_eq!(shape(&ours), shape(&kernel));
    let head = |text: &str| {
        text.lines()
            .next()
            .unwrap()
            .split_once(' ')
            .unwrap()
            .1
            .trim()
            .to_owned()
    };
    let squeezed = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(head(&ours)), squeezed(head(&kernel)));
}

#[test]
fn bytes_go_from_one_process_to_another() {
    let (from, _) = world();
    let to = crate::world::process(from.machine());
    to.perform(&anonymous(BASE, 20, 3)).unwrap();
    let bytes: Vec<u8> = (0..9000).map(|i| (i % 251) as u8).collect();
    assert_eq!(from.copy_in(BASE + 100, &bytes), bytes.len());
    assert_eq!(from.copy_to(BASE + 100, &to, BASE + 3001, 9000), 9000);
    let mut found = vec![0; 9000];
    assert_eq!(to.copy_out(BASE + 3001, &mut found), 9000);
    assert_eq!(found, bytes);
    // To the end of what is mapped on either side.
    let room = 20 * PAGE as usize - 5;
    assert_eq!(from.copy_to(BASE, &to, BASE + 5, 1 << 20), room);
    assert_eq!(
        from.copy_to(BASE + 39 * PAGE, &to, BASE, 1 << 20),
        PAGE as usize
    );
    assert_eq!(from.copy_to(BASE + 45 * PAGE, &to, BASE, 1), 0);
    assert_eq!(from.copy_to(BASE + 60 * PAGE, &to, BASE, 1), 0, "a guard");
    assert_eq!(from.copy_to(!0, &to, BASE, 2), 0);
    assert_eq!(from.copy_to(BASE, &from, BASE + 20 * PAGE, 3), 3);
}

#[test]
fn a_core_has_the_bytes_of_the_process() {
    use samara_mm::observe::core_file::{self, EM_X86_64, Filter, Segment};

    let (process, _) = world();
    let segments: Vec<Segment> = process.with_space(|space| {
        let all = |area: &samara_mm::Area<'_>| core_file::dumped(area, Filter::all(), || false);
        let segments = space
            .areas()
            .map(|area| core_file::segment(&area, all(&area)));
        segments.collect()
    });
    let mut file = Vec::new();
    let given = segments.iter().copied();
    core_file::write(&mut file, EM_X86_64, &[], given, &mut &process).unwrap();
    let mut from = file.len() - segments.iter().map(|s| s.dumped as usize).sum::<usize>();
    for segment in segments {
        for page in (segment.start..segment.end).step_by(PAGE as usize) {
            let mut bytes = [0; PAGE as usize];
            if process.page(page).contains(PageStatus::PRESENT) {
                assert_eq!(process.copy_out(page, &mut bytes), bytes.len());
            }
            assert_eq!(file[from..from + bytes.len()], bytes, "{page:x}");
            from += bytes.len();
        }
    }
    assert_eq!(from, file.len());
}

/// Observers run concurrently with faults and calls of another thread, and each reports areas and
/// pages in order.
#[test]
fn walks_beside_changes() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let rounds = if cfg!(miri) { 3 } else { 300 };
    let (process, _) = world();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut x = 7u64;
            for _ in 0..rounds {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let (page, len) = ((x >> 33) % 60, 1 + (x >> 50) % 5);
                let addr = BASE + page * PAGE;
                let _ = match (x >> 60) % 4 {
                    0 => process.perform(&anonymous(addr, len, 3)),
                    1 => process.perform(&Call::Munmap {
                        addr,
                        len: len * PAGE,
                    }),
                    2 => process.perform(&Call::Madvise {
                        addr,
                        len: len * PAGE,
                        advice: 4,
                    }),
                    _ => Ok(process.copy_in(addr, &[1; 4096]) as u64),
                };
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut walks = 0;
        while walks < 3 || !done.load(Ordering::Relaxed) {
            // Order is checked in there.
            walked(&process, BASE - PAGE, BASE + 700 * PAGE);
            let mut words = [0; 80];
            process.pagemap(BASE, &mut words).unwrap();
            let mut text = String::new();
            process.write_smaps(&mut text).unwrap();
            assert!(process.memory().resident() > 0 && process.rollup().is_some());
            walks += 1;
        }
    });
    process.check().unwrap();
    process.machine().check().unwrap();
}
