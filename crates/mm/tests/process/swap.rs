//! Pages that go to swap and come back, compared with a model of bytes; the reaper.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use samara_mm::abi::{
    MADV_COLLAPSE, MADV_DONTNEED, MADV_FREE, MADV_PAGEOUT, MAP_ANONYMOUS, MAP_DROPPABLE, MAP_FIXED,
};
use samara_mm::observe::PagemapWord;
use samara_mm::process::{Access, Fault, ForkMode, Machine, PAGE_BYTES, Process, SwapDevice};
use samara_mm::walkers::PinFlags;
use samara_mm::{Call, Errno, FileArg};

use crate::world::{BASE, Hosted, PAGE, anonymous, byte, machine, process};

/// Places in memory; a broken one refuses.
pub(crate) struct Disk {
    pages: Mutex<Vec<[u8; PAGE_BYTES]>>,
    broken: AtomicBool,
    reads: AtomicU64,
}

struct Device(Arc<Disk>);

impl SwapDevice for Device {
    fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        if self.0.broken.load(Ordering::Relaxed) {
            return Err(Errno::EIO);
        }
        *into = self.0.pages.lock().unwrap()[place as usize];
        Ok(())
    }

    fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        if self.0.broken.load(Ordering::Relaxed) {
            return Err(Errno::EIO);
        }
        self.0.pages.lock().unwrap()[place as usize] = *from;
        Ok(())
    }
}

pub(crate) fn swap_on(machine: &Machine<Hosted>, places: u32) -> Arc<Disk> {
    let disk = Arc::new(Disk {
        pages: Mutex::new(vec![[0; PAGE_BYTES]; places as usize]),
        broken: AtomicBool::new(false),
        reads: AtomicU64::new(0),
    });
    machine.swap_on(Device(disk.clone()), places).unwrap();
    disk
}

fn advise(process: &Process<Hosted>, page: u64, pages: u64, advice: i32) {
    let call = Call::Madvise {
        addr: BASE + page * PAGE,
        len: pages * PAGE,
        advice,
    };
    process.perform(&call).unwrap();
}

fn written(process: &Process<Hosted>, pages: u64) {
    process.perform(&anonymous(BASE, pages, 3)).unwrap();
    for page in 0..pages {
        assert_eq!(process.copy_in(BASE + page * PAGE, &[page as u8 + 1]), 1);
    }
}

fn bytes(process: &Process<Hosted>, pages: u64) -> Vec<u8> {
    (0..pages)
        .map(|page| byte(process, BASE + page * PAGE).unwrap())
        .collect()
}

fn line(process: &Process<Hosted>, label: &str) -> u64 {
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix(label))
        .map(|rest| {
            rest.split_whitespace()
                .next()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        })
        .sum()
}

#[test]
fn pages_go_out_and_come_back_by_faults() {
    let machine = machine(64);
    let disk = swap_on(&machine, 8);
    let process = process(&machine);
    written(&process, 6);
    advise(&process, 1, 4, MADV_PAGEOUT);
    assert_eq!((machine.stats().anon, machine.swapped()), (2, 4));
    assert_eq!(
        (line(&process, "Swap:"), line(&process, "SwapPss:")),
        (16, 16)
    );
    assert_eq!(process.memory().swap, 4);
    let mut words = [0; 6];
    process.pagemap(BASE, &mut words).unwrap();
    let swapped = words.map(|word| word & PagemapWord::SWAP.bits() != 0);
    assert_eq!(swapped, [false, true, true, true, true, false]);
    process.check().unwrap();
    assert_eq!(bytes(&process, 6), [1, 2, 3, 4, 5, 6]);
    assert_eq!(machine.swapped(), 0);
    assert_eq!(disk.reads.load(Ordering::Relaxed), 4);
    // A write brings back what is around it.
    advise(&process, 0, 6, MADV_PAGEOUT);
    assert_eq!(machine.stats().anon, 0);
    process.copy_in(BASE + 1, b"x");
    assert_eq!(bytes(&process, 6), [1, 2, 3, 4, 5, 6]);
    machine.check().unwrap();
}

#[test]
fn places_are_shared_by_forks_and_given_up_with_the_last() {
    let machine = machine(128);
    swap_on(&machine, 8);
    let parent = process(&machine);
    written(&parent, 4);
    advise(&parent, 0, 4, MADV_PAGEOUT);
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let child = parent.fork(mode).unwrap();
        assert_eq!(machine.swapped(), 4);
        assert_eq!((line(&child, "Swap:"), line(&child, "SwapPss:")), (16, 8));
        assert_eq!(bytes(&child, 2), [1, 2]);
        child.copy_in(BASE, b"c");
        assert_eq!(machine.swapped(), 4);
        let grandchild = child.fork(mode).unwrap();
        drop(child);
        assert_eq!(bytes(&grandchild, 4), [b'c', 2, 3, 4]);
    }
    assert_eq!((machine.swapped(), machine.stats().anon), (4, 0));
    assert_eq!(bytes(&parent, 4), [1, 2, 3, 4]);
    assert_eq!(machine.swapped(), 0);
    advise(&parent, 0, 4, MADV_PAGEOUT);
    drop(parent);
    assert_eq!(machine.swapped(), 0);
    machine.check().unwrap();
}

#[test]
fn calls_treat_what_is_in_swap_as_pages() {
    let machine = machine(128);
    swap_on(&machine, 8);
    let process = process(&machine);
    written(&process, 6);
    advise(&process, 0, 6, MADV_PAGEOUT);
    advise(&process, 0, 1, MADV_DONTNEED);
    advise(&process, 1, 1, MADV_FREE);
    assert_eq!(machine.swapped(), 4);
    let protect = Call::Mprotect {
        addr: BASE + 2 * PAGE,
        len: PAGE,
        prot: 1,
        pkey: -1,
    };
    process.perform(&protect).unwrap();
    assert_eq!(process.copy_in(BASE + 2 * PAGE, b"x"), 0);
    let to = BASE + 0x100_0000;
    let mv = Call::Mremap {
        old_addr: BASE + 3 * PAGE,
        old_len: PAGE,
        new_len: PAGE,
        flags: 3,
        new_addr: to,
    };
    process.perform(&mv).unwrap();
    let unmap = Call::Munmap {
        addr: BASE + 4 * PAGE,
        len: PAGE,
    };
    process.perform(&unmap).unwrap();
    assert_eq!(machine.swapped(), 3);
    assert_eq!(byte(&process, to), Some(4));
    assert_eq!(bytes(&process, 3), [0, 0, 3]);
    assert_eq!(byte(&process, BASE + 5 * PAGE), Some(6));
    assert_eq!(machine.swapped(), 0);
    // Guards stay guards, and pages in swap next to them stay there.
    written(&process, 4);
    advise(&process, 0, 4, MADV_PAGEOUT);
    advise(&process, 1, 1, 102);
    assert_eq!(machine.swapped(), 3);
    assert_eq!(process.fault(BASE + PAGE, Access::READ), Err(Fault::MAPERR));
    advise(&process, 0, 4, 103);
    assert_eq!(bytes(&process, 4), [1, 0, 3, 4]);
    machine.check().unwrap();
}

#[test]
fn what_others_have_stays_in_memory() {
    let machine = machine(64);
    swap_on(&machine, 8);
    let process = process(&machine);
    written(&process, 3);
    let pins = process.pin(BASE, 1, PinFlags::WRITE).unwrap();
    process.copy_in(BASE, &[9]);
    assert_eq!(process.swap_out(BASE, BASE + 3 * PAGE), 2);
    let frame = process.translate(BASE).unwrap().0;
    assert_eq!(pins.frames().next(), Some(frame));
    assert_eq!(bytes(&process, 3), [9, 2, 3]);
    drop(pins);
    let child = process.fork(ForkMode::Copy).unwrap();
    assert_eq!(process.swap_out(BASE, BASE + 3 * PAGE), 0);
    drop(child);
    assert_eq!(process.swap_out(BASE, BASE + 3 * PAGE), 3);
    machine.check().unwrap();
}

#[test]
fn droppable_memory_is_dropped_and_never_in_swap() {
    for places in [0, 16] {
        let machine = machine(64);
        if places > 0 {
            swap_on(&machine, places);
        }
        let process = process(&machine);
        let flags = MAP_DROPPABLE | MAP_ANONYMOUS | MAP_FIXED;
        let (file, offset) = (FileArg::None, 0);
        let (addr, len, prot) = (BASE, 4 * PAGE, 3);
        let call = Call::Mmap {
            addr,
            len,
            prot,
            flags,
            file,
            offset,
        };
        process.perform(&call).unwrap();
        for page in 0..3 {
            assert_eq!(process.copy_in(BASE + page * PAGE, &[7]), 1);
        }
        // The walker leaves it in memory; the advice has nowhere else to put it. Linux does not look at the dirty bits of such memory.
        assert_eq!(process.swap_out(BASE, BASE + 4 * PAGE), 0);
        assert_eq!(bytes(&process, 4), [7, 7, 7, 0]);
        advise(&process, 1, 2, MADV_PAGEOUT);
        assert_eq!(machine.swapped(), 0);
        assert_eq!(machine.stats().anon, 1);
        assert_eq!(bytes(&process, 4), [7, 0, 0, 0]);
        // What is left can be written as before.
        assert_eq!(process.copy_in(BASE + PAGE, &[8]), 1);
        assert_eq!(bytes(&process, 4), [7, 8, 0, 0]);
        machine.check().unwrap();
    }
}

#[test]
fn full_and_broken_devices_lose_nothing() {
    let machine = machine(64);
    let disk = swap_on(&machine, 2);
    assert_eq!(
        machine.swap_on(Device(disk.clone()), 2).unwrap_err(),
        Errno::EBUSY
    );
    let process = process(&machine);
    written(&process, 4);
    assert_eq!(process.swap_out(BASE, BASE + 4 * PAGE), 2);
    assert_eq!(machine.stats().anon, 2);
    disk.broken.store(true, Ordering::Relaxed);
    assert_eq!(process.fault(BASE, Access::READ), Err(Fault::ADRERR));
    assert_eq!(machine.swap_off(), Err(Errno::EIO));
    disk.broken.store(false, Ordering::Relaxed);
    assert_eq!(bytes(&process, 4), [1, 2, 3, 4]);
    disk.broken.store(true, Ordering::Relaxed);
    assert_eq!(process.swap_out(BASE, BASE + 4 * PAGE), 0);
    assert_eq!(bytes(&process, 4), [1, 2, 3, 4]);
    assert_eq!(process.copy_in(BASE, b"w"), 1);
    disk.broken.store(false, Ordering::Relaxed);
    assert_eq!(process.swap_out(BASE, BASE + 4 * PAGE), 2);
    // Memory runs out while all comes back: it stays on, and what is in it.
    let fill = Call::Mmap {
        addr: 0,
        len: 64 * PAGE,
        prot: 3,
        flags: 0x8022,
        file: samara_mm::FileArg::None,
        offset: 0,
    };
    let hog = process.perform(&fill).unwrap();
    assert_eq!(machine.swap_off(), Err(Errno::ENOMEM));
    process
        .perform(&Call::Munmap {
            addr: hog,
            len: 64 * PAGE,
        })
        .unwrap();
    machine.swap_off().unwrap();
    assert_eq!(machine.swap_off(), Err(Errno::EINVAL));
    assert_eq!(bytes(&process, 4), [b'w', 2, 3, 4]);
    machine.check().unwrap();
}

#[test]
fn huge_pages_are_divided_and_put_together() {
    let machine = machine(4 << 10);
    swap_on(&machine, 600);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 512, 3)).unwrap();
    advise(&process, 0, 512, 14);
    process.copy_in(BASE + 5 * PAGE, b"h");
    assert_eq!(process.swap_out(BASE + 4 * PAGE, BASE + 8 * PAGE), 4);
    assert_eq!(machine.swapped(), 4);
    advise(&process, 0, 512, MADV_COLLAPSE);
    assert_eq!(machine.swapped(), 0);
    assert_eq!(byte(&process, BASE + 5 * PAGE), Some(b'h'));
    assert!(
        process
            .page(BASE)
            .contains(samara_mm::process::PageStatus::HUGE)
    );
    assert_eq!(process.swap_out(BASE, BASE + 512 * PAGE), 512);
    assert_eq!(byte(&process, BASE + 5 * PAGE), Some(b'h'));
    machine.check().unwrap();
}

#[test]
fn swap_beside_faults_forks_and_calls() {
    let machine = machine(2048);
    swap_on(&machine, 512);
    let process = process(&machine);
    process.expect_threads();
    process.perform(&anonymous(BASE, 64, 3)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (process, over) = (&process, &over);
            scope.spawn(move || {
                // Each has pages of its own, which no other thread changes.
                let mut round = 0u64;
                while !over.load(Ordering::Relaxed) {
                    round += 1;
                    for page in 0..16 {
                        let at = BASE + (thread * 16 + page) * PAGE;
                        let value = (round + page) as u8;
                        assert_eq!(process.copy_in(at, &[value]), 1);
                        std::hint::spin_loop();
                        assert_eq!(byte(process, at), Some(value));
                    }
                }
            });
        }
        for round in 0..200 {
            process.swap_out(BASE, BASE + 64 * PAGE);
            if round % 3 == 0 {
                let child = process.fork(ForkMode::Share).unwrap();
                child.swap_out(BASE, BASE + 64 * PAGE);
                child.copy_in(BASE, b"c");
            }
            advise(&process, 32, 32, MADV_PAGEOUT);
            if round % 7 == 0 {
                // Another thread may have swapped something out since.
                match machine.swap_off() {
                    Ok(()) => drop(swap_on(&machine, 512)),
                    Err(error) => assert_eq!(error, Errno::EBUSY),
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(process);
    assert_eq!(machine.swapped(), 0);
    machine.check().unwrap();
}

#[test]
fn the_reaper_takes_private_memory_beside_everything_else() {
    let machine = machine(256);
    let process = process(&machine);
    written(&process, 8);
    let child = process.fork(ForkMode::Share).unwrap();
    let pins = child.pin(BASE + PAGE, 1, PinFlags::WRITE).unwrap();
    std::thread::scope(|scope| {
        let process = &process;
        scope.spawn(move || {
            for round in 0..1000u64 {
                // What it reads is what it was, as long as it can be read at all.
                let at = round % 8;
                if let Some(value) = byte(process, BASE + at * PAGE) {
                    assert_eq!(u64::from(value), at + 1);
                }
            }
        });
        while !process.reap() {}
    });
    for page in 0..8 {
        let fault = process.fault(BASE + page * PAGE, Access::WRITE);
        assert_eq!(fault, Err(Fault::ADRERR));
    }
    assert_eq!(bytes(&child, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    drop(pins);
    machine.check().unwrap();
}
