//! `MADV_DONTNEED`, which takes no lock of the address space if threads are expected: its results,
//! and its concurrency with everything that does take the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use samara_mm::abi::{
    MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_PAGEOUT, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, ForkMode, Process};
use samara_mm::{Call, Errno};

use crate::swap::swap_on;
use crate::world::{
    BASE, Disk, Hosted, PAGE, anonymous, byte, free_frames, machine, mapping, open, process,
};

const RW: u64 = PROT_READ | PROT_WRITE;
const PAGES: u64 = 8;

fn discard(process: &Process<Hosted>, addr: u64, pages: u64) -> Result<u64, Errno> {
    let advice = MADV_DONTNEED;
    process.perform(&Call::Madvise {
        addr,
        len: pages * PAGE,
        advice,
    })
}

/// Areas with holes between them, of each kind for which there is a rule. Then ranges within,
/// across and next to these.
#[test]
fn threads_change_no_answer() {
    let answers = [false, true].map(|threads| {
        let machine = machine(256);
        let disk = Disk::new((PAGES * PAGE) as usize, false);
        let file = open(&disk);
        let process = process(&machine);
        let area = |i: u64| BASE + i * 16 * PAGE;
        for i in 0..8 {
            let call = match i {
                5 => mapping(&file, area(i), 0, PAGES, RW, MAP_PRIVATE),
                6 => mapping(&file, area(i), 0, PAGES, RW, MAP_SHARED),
                _ => anonymous(area(i), PAGES, RW),
            };
            process.perform(&call).unwrap();
            (0..PAGES)
                .for_each(|page| process.fault(area(i) + page * PAGE, Access::WRITE).unwrap());
        }
        let (len, flags) = (PAGES * PAGE, 0);
        let lock = Call::Mlock {
            addr: area(1),
            len,
            flags,
        };
        process.perform(&lock).unwrap();
        let protect = |i, len, prot| {
            let (addr, pkey) = (area(i), -1);
            let call = Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            };
            process.perform(&call).unwrap();
        };
        protect(2, len, PROT_READ);
        let seal = Call::Mseal {
            addr: area(2),
            len,
            flags: 0,
        };
        process.perform(&seal).unwrap();
        // Two areas that touch.
        protect(3, 4 * PAGE, PROT_READ);
        let guard = Call::Madvise {
            addr: area(4) + 2 * PAGE,
            len: PAGE,
            advice: MADV_GUARD_INSTALL,
        };
        process.perform(&guard).unwrap();
        if threads {
            process.expect_threads();
        }
        let mut answers = Vec::new();
        for i in 0..8 {
            for (at, len) in [
                (2 * PAGE, 4 * PAGE),
                (2 * PAGE, 4 * PAGE - 1),
                (0, 0),
                (1, PAGE),
                (6 * PAGE, 4 * PAGE),
                (12 * PAGE, PAGE),
                (0, u64::MAX),
            ] {
                let advice = MADV_DONTNEED;
                let addr = area(i) + at;
                answers.push(process.perform(&Call::Madvise { addr, len, advice }));
            }
        }
        let present: Vec<_> = (0..8 * 16)
            .map(|page| process.translate(BASE + page * PAGE).is_some())
            .collect();
        machine.check().unwrap();
        (answers, present)
    });
    let [without, with] = answers;
    assert_eq!(without, with);
    assert!(with.0.contains(&Err(Errno::EPERM)) && with.0.contains(&Err(Errno::ENOMEM)));
}

/// A concurrent activity of another thread.
#[derive(Clone, Copy)]
enum Other {
    Calls,
    Sharing,
    Swap,
}

/// A thread's own pages: what it has written is there until it gives it back, and zeroes are after that.
fn own_pages(process: &Process<Hosted>, base: u64, common: u64, times: u8) {
    for time in 1..=times {
        for page in 0..PAGES {
            assert_eq!(process.copy_in(base + page * PAGE, &[time]), 1);
        }
        for page in 0..PAGES {
            assert_eq!(
                byte(process, base + page * PAGE),
                Some(time),
                "a store is lost"
            );
        }
        discard(process, base, PAGES).unwrap();
        for page in 0..PAGES {
            assert_eq!(
                byte(process, base + page * PAGE),
                Some(0),
                "a page has come back"
            );
        }
        // What all use may be anything, or gone.
        process.copy_in(common + u64::from(time) % PAGES * PAGE, &[time]);
        let _ = discard(process, common + PAGE, PAGES - 2);
    }
}

fn beside(other: Other, rounds: u64, times: u8) {
    let machine = machine(2048);
    swap_on(&machine, 64);
    let before = free_frames(&machine);
    let common = BASE + 64 * PAGE;
    for _ in 0..rounds {
        // What is shared or in swap once is remembered: each round begins without.
        let process = process(&machine);
        for n in 0..2 {
            process
                .perform(&anonymous(BASE + n * 16 * PAGE, PAGES, RW))
                .unwrap();
        }
        process.perform(&anonymous(common, PAGES, RW)).unwrap();
        process.expect_threads();
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            let (process, over) = (&process, &over);
            let workers: Vec<_> = (0..2)
                .map(|n| s.spawn(move || own_pages(process, BASE + n * 16 * PAGE, common, times)))
                .collect();
            s.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // A fork may find no memory: children's tables wait for walks of threads whose turn is over.
                    match other {
                        Other::Calls => {
                            let (addr, len) = (common + 2 * PAGE, 3 * PAGE);
                            process.perform(&Call::Munmap { addr, len }).unwrap();
                            process.perform(&anonymous(addr, 3, RW)).unwrap();
                            let _ = process.fork(ForkMode::Copy);
                        }
                        Other::Sharing => _ = process.fork(ForkMode::Share),
                        Other::Swap => {
                            process.swap_out(BASE, common + PAGES * PAGE);
                            let (addr, len, advice) = (BASE, PAGES * PAGE, MADV_PAGEOUT);
                            process
                                .perform(&Call::Madvise { addr, len, advice })
                                .unwrap();
                        }
                    }
                }
            });
            for worker in workers {
                worker.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        machine.check().unwrap();
    }
    machine.check().unwrap();
    assert_eq!(machine.swapped(), 0);
    assert_eq!(free_frames(&machine), before);
}

const ROUNDS: u64 = if cfg!(miri) { 1 } else { 8 };
const TIMES: u8 = if cfg!(miri) { 2 } else { 200 };

#[test]
fn threads_discard_beside_calls_and_forks() {
    beside(Other::Calls, ROUNDS, TIMES);
}

#[test]
fn threads_discard_beside_forks_that_share() {
    // The first fork is what matters.
    beside(Other::Sharing, 8 * ROUNDS, TIMES / 8 + 1);
}

#[test]
fn threads_discard_beside_pages_that_go_to_swap() {
    beside(Other::Swap, 8 * ROUNDS, TIMES / 8 + 1);
}
