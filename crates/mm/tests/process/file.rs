//! Pages of files.

use samara_mm::abi::{
    MADV_REMOVE, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, MS_SYNC, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, Fault, ForkMode, PageStatus};
use samara_mm::{Call, FileArg};

use crate::world::{
    BASE, Disk, PAGE, anonymous, byte, free_frames, machine, mapping, open, process,
};

const RW: u64 = PROT_READ | PROT_WRITE;
const OTHER: u64 = BASE + 0x100_0000;

#[test]
fn a_private_mapping_reads_the_file_and_writes_copies() {
    let machine = machine(64);
    let before = free_frames(&machine);
    let disk = Disk::new(10_000, false);
    let file = open(&disk);
    let process = process(&machine);
    process
        .perform(&mapping(&file, BASE, 0, 4, RW, MAP_PRIVATE))
        .unwrap();
    assert_eq!(byte(&process, BASE + PAGE), Some(2));
    assert_eq!(
        process.page(BASE + PAGE),
        PageStatus::PRESENT | PageStatus::FILE | PageStatus::EXCLUSIVE
    );
    assert_eq!(process.copy_in(BASE + PAGE + 5, b"x"), 1);
    assert!(!process.page(BASE + PAGE).contains(PageStatus::FILE));
    assert_eq!(byte(&process, BASE + PAGE), Some(2));
    assert_eq!(byte(&process, BASE + PAGE + 5), Some(b'x'));
    // Beyond the end, in its last page and behind it.
    assert_eq!(byte(&process, BASE + 10_000), Some(0));
    assert_eq!(
        process.fault(BASE + 3 * PAGE, Access::READ),
        Err(Fault::ADRERR)
    );
    assert_eq!(process.copy_in(BASE, b"y"), 1);
    assert_eq!(disk.bytes.lock().unwrap()[0], 1);
    machine.check().unwrap();
    drop(file);
    drop(process);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
    assert!(disk.writes.lock().unwrap().is_empty());
}

#[test]
fn a_shared_mapping_is_written_back() {
    let machine = machine(64);
    let before = free_frames(&machine);
    let disk = Disk::new(8 * 4096, false);
    let file = open(&disk);
    let (one, two) = (process(&machine), process(&machine));
    for process in [&one, &two] {
        process
            .perform(&mapping(&file, BASE, 0, 8, RW, MAP_SHARED))
            .unwrap();
    }
    drop(file);
    assert_eq!(one.copy_in(BASE + 3 * PAGE, b"one"), 3);
    assert_eq!(byte(&two, BASE + 3 * PAGE), Some(b'o'));
    assert_eq!(two.copy_in(BASE + 3 * PAGE, b"T"), 1);
    let sync = Call::Msync {
        addr: BASE,
        len: 8 * PAGE,
        flags: MS_SYNC,
    };
    one.perform(&sync).unwrap();
    assert_eq!(*disk.writes.lock().unwrap(), [3]);
    assert_eq!(&disk.bytes.lock().unwrap()[3 * 4096..][..3], b"Tne");
    // Clean: nothing to write; the next write is noticed again, whoever's it is.
    one.perform(&sync).unwrap();
    assert_eq!(*disk.writes.lock().unwrap(), [3]);
    assert_eq!(two.copy_in(BASE + 3 * PAGE, b"U"), 1);
    assert_eq!(two.copy_in(BASE + 5 * PAGE, b"V"), 1);
    machine.check().unwrap();
    drop(one);
    assert_eq!(*disk.writes.lock().unwrap(), [3]);
    drop(two);
    assert_eq!(*disk.writes.lock().unwrap(), [3, 3, 5]);
    assert_eq!(disk.bytes.lock().unwrap()[3 * 4096], b'U');
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
}

#[test]
fn a_read_maps_what_is_in_memory_around_it() {
    let machine = machine(128);
    let disk = Disk::new(64 * 4096, true);
    let file = open(&disk);
    let process = process(&machine);
    process
        .perform(&mapping(&file, OTHER, 0, 64, RW, MAP_SHARED))
        .unwrap();
    for page in [3, 4, 15, 16, 40] {
        process.copy_in(OTHER + page * PAGE, b"x");
    }
    process
        .perform(&mapping(&file, BASE + PAGE, 1, 63, PROT_READ, MAP_PRIVATE))
        .unwrap();
    byte(&process, BASE + 5 * PAGE);
    let present: Vec<u64> = (0..64)
        .filter(|page| !process.page(BASE + page * PAGE).is_empty())
        .collect();
    // From the area's start, so many from there.
    assert_eq!(present, [3, 4, 5, 15, 16]);
    machine.check().unwrap();
}

#[test]
fn truncation_drops_private_copies_and_punching_keeps_them() {
    let machine = machine(64);
    let disk = Disk::new(8 * 4096, false);
    let file = open(&disk);
    let process = process(&machine);
    process
        .perform(&mapping(&file, BASE, 0, 8, RW, MAP_PRIVATE))
        .unwrap();
    process
        .perform(&mapping(&file, OTHER, 0, 8, RW, MAP_SHARED))
        .unwrap();
    for page in 0..8 {
        assert_eq!(byte(&process, OTHER + page * PAGE), Some(page as u8 + 1));
    }
    for page in [1, 6] {
        process.copy_in(BASE + page * PAGE, b"x");
    }
    let punch = Call::Madvise {
        addr: OTHER,
        len: 3 * PAGE,
        advice: MADV_REMOVE,
    };
    process.perform(&punch).unwrap();
    assert_eq!(byte(&process, BASE), Some(0));
    assert_eq!(byte(&process, BASE + PAGE), Some(b'x'));
    assert_eq!(byte(&process, OTHER + PAGE), Some(0));
    disk.resize(5 * 4096 + 10);
    machine.truncate(&file.object, 5 * PAGE + 10).unwrap();
    assert_eq!(byte(&process, BASE + 5 * PAGE + 9), Some(6));
    assert_eq!(byte(&process, OTHER + 5 * PAGE + 10), Some(0));
    for base in [BASE, OTHER] {
        let fault = process.fault(base + 6 * PAGE, Access::WRITE);
        assert_eq!(fault, Err(Fault::ADRERR));
    }
    machine.check().unwrap();
    disk.resize(8 * 4096);
    assert_eq!(byte(&process, BASE + 6 * PAGE), Some(0));
    assert_eq!(byte(&process, OTHER + 6 * PAGE), Some(0));
}

/// Truncation looks only at processes that may have pages of the file: those that brought one in, and their children.
#[test]
fn truncation_reaches_what_children_inherited() {
    let machine = machine(256);
    let strangers: Vec<_> = (0..3).map(|_| process(&machine)).collect();
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let disk = Disk::new(8 * 4096, false);
        let file = open(&disk);
        let parent = process(&machine);
        parent
            .perform(&mapping(&file, BASE, 0, 8, RW, MAP_PRIVATE))
            .unwrap();
        parent
            .perform(&mapping(&file, OTHER, 0, 8, RW, MAP_SHARED))
            .unwrap();
        // Its own copy of one page, and the file's of another.
        assert_eq!(parent.copy_in(BASE + 6 * PAGE, b"x"), 1);
        assert_eq!(byte(&parent, OTHER + 7 * PAGE), Some(8));
        let child = parent.fork(mode).unwrap();
        drop(parent);
        let grandchild = child.fork(mode).unwrap();
        // One that maps the file and has no page of it.
        let idle = process(&machine);
        idle.perform(&mapping(&file, BASE, 0, 8, RW, MAP_SHARED))
            .unwrap();
        disk.resize(4 * 4096);
        machine.truncate(&file.object, 4 * PAGE).unwrap();
        for process in [&child, &grandchild] {
            assert_eq!(byte(process, BASE + 3 * PAGE), Some(4));
            for lost in [BASE + 6 * PAGE, OTHER + 7 * PAGE] {
                assert_eq!(process.fault(lost, Access::READ), Err(Fault::ADRERR));
            }
        }
        let beyond = idle.fault(BASE + 6 * PAGE, Access::READ);
        assert_eq!(beyond, Err(Fault::ADRERR));
        machine.check().unwrap();
    }
    drop(strangers);
}

#[test]
fn shared_anonymous_memory_is_one_object() {
    let machine = machine(64);
    let before = free_frames(&machine);
    let process = process(&machine);
    let call = Call::Mmap {
        addr: BASE,
        len: 2 * PAGE,
        prot: RW,
        flags: MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
        file: FileArg::None,
        offset: 0,
    };
    process.perform(&call).unwrap();
    process.copy_in(BASE, b"x");
    let child = process.fork(ForkMode::Copy).unwrap();
    assert_eq!(child.page(BASE), PageStatus::empty());
    assert_eq!(byte(&child, BASE), Some(b'x'));
    child.copy_in(BASE + PAGE, b"y");
    assert_eq!(byte(&process, BASE + PAGE), Some(b'y'));
    assert!(!process.page(BASE).contains(PageStatus::EXCLUSIVE));
    machine.check().unwrap();
    drop(process);
    assert_eq!(byte(&child, BASE), Some(b'x'));
    // Grown beyond its size: nothing is there.
    let grow = Call::Mremap {
        old_addr: BASE,
        old_len: 2 * PAGE,
        new_len: 3 * PAGE,
        flags: 0,
        new_addr: 0,
    };
    child.perform(&grow).unwrap();
    assert_eq!(
        child.fault(BASE + 2 * PAGE, Access::READ),
        Err(Fault::ADRERR)
    );
    drop(child);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
}

/// Pages leave tables that parent and child share although there is no memory to divide them.
#[test]
fn files_are_cut_off_without_memory() {
    for (punched, grandchild) in [(false, false), (true, false), (false, true), (true, true)] {
        let machine = machine(256);
        let disk = Disk::new(8 * 4096, true);
        let file = open(&disk);
        let parent = process(&machine);
        parent
            .perform(&mapping(&file, BASE, 0, 8, RW, MAP_PRIVATE))
            .unwrap();
        parent
            .perform(&mapping(&file, BASE + 8 * PAGE, 0, 8, RW, MAP_SHARED))
            .unwrap();
        // Something else in the same table, and a table of which nothing is left.
        parent.perform(&anonymous(BASE + 16 * PAGE, 1, RW)).unwrap();
        parent
            .perform(&mapping(&file, OTHER, 4, 4, RW, MAP_SHARED))
            .unwrap();
        parent.copy_in(BASE + 16 * PAGE, b"else");
        parent.copy_in(BASE, b"own");
        parent.copy_in(BASE + 6 * PAGE, b"own");
        for page in 0..8 {
            parent.copy_in(BASE + (8 + page) * PAGE, b"shared");
        }
        parent.copy_in(OTHER + 2 * PAGE, b"S");
        let child = parent.fork(ForkMode::Share).unwrap();
        let other = if grandchild {
            child.fork(ForkMode::Share).unwrap()
        } else {
            parent.fork(ForkMode::Copy).unwrap()
        };
        assert!(machine.stats().shared_tables > 0);
        let arena = machine.physical().backing();
        arena.refuse_after(Some(0));
        let done = if punched {
            machine.punch(&file.object, 4 * PAGE, 8 * PAGE)
        } else {
            disk.resize(4 * 4096);
            machine.truncate(&file.object, 4 * PAGE)
        };
        assert_eq!(done, Ok(()));
        machine.check().unwrap();
        for process in [&parent, &child, &other] {
            for page in [6, 12, 15] {
                // A hole spares private copies.
                let stays = punched && page == 6;
                let there = process.translate(BASE + page * PAGE).is_some();
                assert_eq!(there, stays, "{page}");
                if !punched {
                    let fault = process.fault(BASE + page * PAGE, Access::READ);
                    assert_eq!(fault, Err(Fault::ADRERR));
                }
            }
            assert!(process.translate(OTHER + 2 * PAGE).is_none());
            assert_eq!(byte(process, BASE), Some(b'o'));
            assert_eq!(byte(process, BASE + 16 * PAGE), Some(b'e'));
        }
        arena.refuse_after(None);
        assert_eq!(byte(&child, BASE + 9 * PAGE), Some(b's'));
        if punched {
            assert_eq!(byte(&child, BASE + 6 * PAGE), Some(b'o'));
            assert_eq!(byte(&other, OTHER + 2 * PAGE), Some(0));
        }
        machine.check().unwrap();
        drop((parent, child, other));
    }
}
