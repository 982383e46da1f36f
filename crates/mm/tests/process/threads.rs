//! Several threads: whatever they do at once, counts are right afterwards, and bytes are whose they should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use samara_mm::Call;
use samara_mm::abi::{
    MADV_DONTNEED, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, MS_SYNC, PROT_READ,
    PROT_WRITE,
};
use samara_mm::process::{ForkMode, Process};

use crate::world::{
    BASE, Disk, Hosted, PAGE, anonymous, free_frames, machine, mapping, open, process,
};

const RW: u64 = PROT_READ | PROT_WRITE;
const STEPS: u64 = if cfg!(miri) {
    20
} else if cfg!(sanitized) {
    1_000
} else {
    4_000
};
/// Pages that threads share out: private, of a file, and of a file privately.
const PAGES: u64 = 8;
const SHARED: u64 = BASE + 0x100_0000;
const COPIES: u64 = BASE + 0x200_0000;

fn random(state: &mut u64, n: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
}

fn step(process: &Process<Hosted>, state: &mut u64) {
    let page = random(state, PAGES) * PAGE;
    let base = [BASE, SHARED, COPIES][random(state, 3) as usize];
    let addr = base + page;
    let len = PAGE * (1 + random(state, 2));
    let mut byte = [0];
    let _ = match random(state, 20) {
        0 => process.perform(&anonymous(BASE + page, 2, RW)),
        1 => process.perform(&Call::Munmap {
            addr: BASE + page,
            len,
        }),
        2 => process.perform(&Call::Mprotect {
            addr,
            len,
            prot: [PROT_READ, RW, RW][random(state, 3) as usize],
            pkey: -1,
        }),
        3 => process.perform(&Call::Madvise {
            addr,
            len,
            advice: MADV_DONTNEED,
        }),
        4 => process.perform(&Call::Msync {
            addr: SHARED,
            len: PAGES * PAGE,
            flags: MS_SYNC,
        }),
        5 => process.perform(&Call::Mremap {
            old_addr: BASE + page,
            old_len: PAGE,
            new_len: PAGE,
            flags: MREMAP_MAYMOVE | MREMAP_FIXED,
            new_addr: BASE + random(state, PAGES) * PAGE,
        }),
        6..12 => Ok(process.copy_out(addr, &mut byte) as u64),
        _ => Ok(process.copy_in(addr, &[1]) as u64),
    };
}

#[test]
fn calls_faults_forks_and_truncation_at_once() {
    let machine = machine(8192);
    let before = free_frames(&machine);
    let disk = Disk::new((PAGES * PAGE) as usize, false);
    let file = open(&disk);
    let parent = process(&machine);
    parent.perform(&anonymous(BASE, PAGES, RW)).unwrap();
    for (addr, flags) in [(SHARED, MAP_SHARED), (COPIES, MAP_PRIVATE)] {
        parent
            .perform(&mapping(&file, addr, 0, PAGES, RW, flags))
            .unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        let workers: Vec<_> = (1..4)
            .map(|number| {
                let parent = &parent;
                s.spawn(move || {
                    let mut state = number;
                    let mut child = None;
                    for i in 0..STEPS {
                        if i % 64 == 0 {
                            let modes = [ForkMode::Copy, ForkMode::Share];
                            child = parent.fork(modes[random(&mut state, 2) as usize]).ok();
                        }
                        match &child {
                            Some(child) if random(&mut state, 2) == 0 => step(child, &mut state),
                            _ => step(parent, &mut state),
                        }
                    }
                })
            })
            .collect();
        let (disk, file, machine, done) = (&disk, &file, &machine, &done);
        s.spawn(move || {
            let mut state = 99;
            while !done.load(Ordering::Relaxed) {
                let size = random(&mut state, PAGES * PAGE);
                disk.resize(size as usize);
                machine.truncate(&file.object, size).unwrap();
                disk.resize((PAGES * PAGE) as usize);
                thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    machine.check().unwrap();
    drop(parent);
    drop(file);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
}

/// Two threads count on one word, while others make it shared and alone again.
#[test]
fn no_store_is_lost() {
    // Tables of children wait as long as a thread rests in the middle of a walk: there is room for all of them.
    let machine = machine(8192);
    let parent = Arc::new(process(&machine));
    parent.perform(&anonymous(BASE, 1, RW)).unwrap();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..STEPS {
                    parent
                        .atomic_u32(BASE + 4, |word| word.fetch_add(1, Ordering::SeqCst))
                        .unwrap();
                }
            });
        }
        s.spawn(|| {
            for i in 0..STEPS / 16 {
                let modes = [ForkMode::Copy, ForkMode::Share];
                let child = parent.fork(modes[i as usize % 2]).unwrap();
                child.copy_in(BASE, &[1]);
            }
        });
    });
    let sum = parent.atomic_u32(BASE + 4, |word| word.load(Ordering::SeqCst));
    assert_eq!(sum, Ok(2 * STEPS as u32));
    machine.check().unwrap();
}
