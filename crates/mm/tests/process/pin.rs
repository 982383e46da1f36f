//! Pinned pages: the device's view and the programs' view, compared with a model of bytes.

use std::sync::atomic::{AtomicBool, Ordering};

use samara_mm::process::{ForkMode, Machine, Process};
use samara_mm::walkers::{PinFlags, PinnedPages};
use samara_mm::{Call, Errno};

use crate::countdown::LEFT;
use crate::world::{BASE, Disk, Hosted, PAGE, anonymous, byte, machine, mapping, open, process};

/// Returns the first byte of a page, as a device reads it.
fn device(machine: &Machine<Hosted>, pins: &PinnedPages<Hosted>, page: usize) -> u8 {
    let frame = pins.frames().nth(page).unwrap();
    // SAFETY: pinned, and no thread writes during the read.
    unsafe { machine.physical().to_virt(frame).read() }
}

/// The same writes.
fn device_writes(machine: &Machine<Hosted>, pins: &PinnedPages<Hosted>, page: usize, value: u8) {
    let frame = pins.frames().nth(page).unwrap();
    // SAFETY: as above.
    unsafe { machine.physical().to_virt(frame).write(value) }
}

fn protect(process: &Process<Hosted>, pages: u64, prot: u64) {
    let call = Call::Mprotect {
        addr: BASE,
        len: pages * PAGE,
        prot,
        pkey: -1,
    };
    process.perform(&call).unwrap();
}

#[test]
fn writes_of_device_and_program_are_seen_by_the_other_whatever_happens_to_the_map() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let machine = machine(128);
        let process = process(&machine);
        process.perform(&anonymous(BASE, 3, 3)).unwrap();
        process.copy_in(BASE, b"a");
        let pins = process.pin(BASE, 2, PinFlags::WRITE).unwrap();
        assert_eq!(pins.len(), 2);
        let mut value = 0;
        let mut both = |process: &Process<Hosted>| {
            value += 2;
            for page in 0..2 {
                assert_eq!(process.copy_in(BASE + page * PAGE, &[value]), 1);
                assert_eq!(device(&machine, &pins, page as usize), value);
                device_writes(&machine, &pins, page as usize, value + 1);
                assert_eq!(byte(process, BASE + page * PAGE), Some(value + 1));
            }
        };
        both(&process);
        let child = process.fork(mode).unwrap();
        assert_eq!(byte(&child, BASE), Some(3));
        both(&process);
        assert_eq!(byte(&child, BASE), Some(3));
        assert_eq!(byte(&child, BASE + PAGE), Some(3));
        child.copy_in(BASE, b"c");
        both(&process);
        protect(&process, 3, 1);
        protect(&process, 3, 3);
        both(&process);
        let second = process.fork(mode).unwrap();
        both(&process);
        drop(child);
        both(&process);
        machine.check().unwrap();
        drop(second);
        // Unmapped, they stay the device's.
        let unmap = Call::Munmap {
            addr: BASE,
            len: 3 * PAGE,
        };
        process.perform(&unmap).unwrap();
        device_writes(&machine, &pins, 0, 9);
        assert_eq!(machine.stats().anon, 2);
        drop(pins);
        assert_eq!(machine.stats().anon, 0);
        machine.check().unwrap();
    }
}

#[test]
fn what_was_pinned_is_shared_again_by_forks() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, 3)).unwrap();
    drop(process.pin(BASE, 1, PinFlags::WRITE).unwrap());
    let frame = process.translate(BASE).unwrap().0;
    let child = process.fork(ForkMode::Copy).unwrap();
    assert_eq!(child.translate(BASE).unwrap().0, frame);
    child.copy_in(BASE, b"c");
    assert_eq!(byte(&process, BASE), Some(0));
    machine.check().unwrap();
}

#[test]
fn parts_of_huge_pages_are_pinned_alone() {
    let machine = machine(4 << 10);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 512, 3)).unwrap();
    let huge = Call::Madvise {
        addr: BASE,
        len: 512 * PAGE,
        advice: 14,
    };
    process.perform(&huge).unwrap();
    process.copy_in(BASE, b"a");
    assert!(
        process
            .page(BASE)
            .contains(samara_mm::process::PageStatus::HUGE)
    );
    let pins = process.pin(BASE + 7 * PAGE, 1, PinFlags::WRITE).unwrap();
    let child = process.fork(ForkMode::Share).unwrap();
    process.copy_in(BASE + 7 * PAGE, b"p");
    process.copy_in(BASE + 8 * PAGE, b"q");
    assert_eq!(device(&machine, &pins, 0), b'p');
    assert_eq!(byte(&child, BASE + 7 * PAGE), Some(0));
    assert_eq!(byte(&child, BASE + 8 * PAGE), Some(0));
    assert_eq!(byte(&child, BASE), Some(b'a'));
    machine.check().unwrap();
}

#[test]
fn a_plain_reference_keeps_the_frame_and_not_the_place() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, 3)).unwrap();
    let flags = PinFlags::WRITE | PinFlags::GET;
    let got = process.pin(BASE, 1, flags).unwrap();
    // As long as nothing happens, it is the same page; it can be pinned, too.
    let pins = process.pin(BASE, 1, PinFlags::WRITE).unwrap();
    assert!(got.frames().eq(pins.frames()));
    drop(pins);
    let child = process.fork(ForkMode::Copy).unwrap();
    process.copy_in(BASE, b"x");
    drop((got, child));
    machine.check().unwrap();
}

#[test]
fn a_long_pin_for_reading_sees_what_is_written_later() {
    let machine = machine(64);
    let process = process(&machine);
    let disk = Disk::new(2 * 4096, false);
    let file = open(&disk);
    process.perform(&anonymous(BASE, 1, 3)).unwrap();
    process
        .perform(&mapping(&file, BASE + PAGE, 1, 1, 3, 2))
        .unwrap();
    let short = process.pin(BASE, 2, PinFlags::empty()).unwrap();
    let long = process.pin(BASE, 2, PinFlags::LONGTERM).unwrap();
    assert_eq!(device(&machine, &long, 1), 2);
    process.copy_in(BASE, b"xy");
    process.copy_in(BASE + PAGE, b"yz");
    assert_eq!([0, 1].map(|page| device(&machine, &long, page)), *b"xy");
    assert_eq!([0, 1].map(|page| device(&machine, &short, page)), [0, 2]);
    drop((short, long));
    // A page that a child has, too, is the reader's own from then on, without LONGTERM.
    let child = process.fork(ForkMode::Copy).unwrap();
    let pins = process.pin(BASE, 1, PinFlags::empty()).unwrap();
    child.copy_in(BASE, b"c");
    process.copy_in(BASE, b"p");
    assert_eq!(device(&machine, &pins, 0), b'p');
    machine.check().unwrap();
}

#[test]
fn who_may_not_is_refused() {
    let machine = machine(64);
    let process = process(&machine);
    let disk = Disk::new(4096, false);
    let file = open(&disk);
    for call in [
        anonymous(BASE, 1, 1),
        anonymous(BASE + PAGE, 1, 0),
        anonymous(BASE + 2 * PAGE, 1, 2),
        mapping(&file, BASE + 3 * PAGE, 0, 1, 3, 1),
        mapping(&file, BASE + 4 * PAGE, 0, 1, 1, 1),
    ] {
        process.perform(&call).unwrap();
    }
    let (read, write) = (PinFlags::empty(), PinFlags::WRITE);
    let (force, long) = (PinFlags::FORCE, PinFlags::LONGTERM);
    let wanted = [
        (0, read, true),
        (0, write, false),
        (0, write | force, true),
        (1, read, false),
        (1, read | force, true),
        (1, write | force, true),
        (2, read, false),
        (2, read | force, true),
        (2, write, true),
        (3, write, true),
        (3, write | long, false),
        (3, read | long, true),
        (3, PinFlags::ANON, false),
        (0, PinFlags::ANON, true),
        // Not to be written, and nowhere to copy to.
        (4, write | force, false),
        (5, read, false),
    ];
    for (page, flags, works) in wanted {
        let result = process.pin(BASE + page * PAGE, 1, flags);
        assert_eq!(result.is_ok(), works, "{page} {flags:?}");
        if let Err(error) = result {
            assert_eq!(error, Errno::EFAULT);
        }
        machine.check().unwrap();
    }
    // A debugger's write is seen; the page still cannot be written by the program.
    let pins = process.pin(BASE, 1, write | force).unwrap();
    device_writes(&machine, &pins, 0, 7);
    assert_eq!(byte(&process, BASE), Some(7));
    assert_eq!(process.copy_in(BASE, b"x"), 0);
    // As many as there are.
    assert_eq!(process.pin(BASE, 2, read).unwrap().len(), 1);
    assert_eq!(process.pin(BASE + 5 * PAGE, 0, read).unwrap().len(), 0);
}

#[test]
fn nothing_is_faulted_in_that_should_not_be() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 3, 3)).unwrap();
    process.copy_in(BASE, b"a");
    let flags = PinFlags::WRITE | PinFlags::NOFAULT;
    for _ in 0..2 {
        assert_eq!(process.pin(BASE, 3, flags).unwrap().len(), 1);
        let none = process.pin(BASE + PAGE, 2, flags).unwrap_err();
        assert_eq!(none, Errno::EFAULT);
    }
    assert_eq!(machine.stats().anon, 1);
}

#[test]
fn memory_that_is_refused_leaves_nothing_behind() {
    for allowed in 0..80 {
        let machine = machine(64);
        let process = process(&machine);
        process.perform(&anonymous(BASE, 3, 3)).unwrap();
        process.copy_in(BASE, b"a");
        LEFT.set(Some(allowed));
        let result = process.pin(BASE, 3, PinFlags::WRITE).and_then(|pins| {
            let child = process.fork(ForkMode::Copy)?;
            Ok::<_, Errno>((pins, child))
        });
        let enough = LEFT.replace(None).is_some();
        machine.check().unwrap();
        match result {
            Ok(_) if enough => return,
            Ok(_) => {}
            Err(error) => assert_eq!(error, Errno::ENOMEM),
        }
    }
    panic!("never enough");
}

#[test]
fn frames_run_out_in_the_middle_of_a_fork_that_copies() {
    let machine = machine(24);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 10, 3)).unwrap();
    let pins = process.pin(BASE, 10, PinFlags::WRITE).unwrap();
    let before = machine.stats();
    assert!(process.fork(ForkMode::Copy).is_err());
    assert_eq!(machine.stats(), before);
    machine.check().unwrap();
    drop(pins);
    drop(process.fork(ForkMode::Copy).unwrap());
    machine.check().unwrap();
}

#[test]
fn pins_beside_forks_faults_and_calls() {
    let machine = machine(2048);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 8, 3)).unwrap();
    drop(process.pin(BASE, 8, PinFlags::WRITE).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each has a page of its own, while the other forks and calls.
        for thread in 0..2u64 {
            let (process, machine, over) = (&process, &machine, &over);
            scope.spawn(move || {
                let at = BASE + thread * PAGE;
                let mut value = 0u8;
                while !over.load(Ordering::Relaxed) {
                    value = value.wrapping_add(1);
                    let pins = process.pin(at, 1, PinFlags::WRITE).unwrap();
                    assert_eq!(process.copy_in(at, &[value]), 1);
                    // Atomic: a fork may be copying it.
                    let frame = pins.frames().next().unwrap();
                    // SAFETY: pinned; all use it by atomic instructions.
                    let seen = unsafe {
                        machine
                            .physical()
                            .to_virt(frame)
                            .cast::<std::sync::atomic::AtomicU8>()
                            .as_ref()
                    };
                    assert_eq!(seen.load(Ordering::Relaxed), value);
                }
            });
        }
        for round in 0..300u64 {
            let mode = if round % 2 == 0 {
                ForkMode::Share
            } else {
                ForkMode::Copy
            };
            let child = process.fork(mode).unwrap();
            child.copy_in(BASE, b"x");
            let discard = Call::Madvise {
                addr: BASE + 4 * PAGE,
                len: 4 * PAGE,
                advice: 4,
            };
            process.perform(&discard).unwrap();
            process.copy_in(BASE + 5 * PAGE, b"y");
        }
        over.store(true, Ordering::Relaxed);
    });
    machine.check().unwrap();
}
