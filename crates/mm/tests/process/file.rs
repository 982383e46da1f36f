//! Pages of files.

use samara_mm::abi::{
    MADV_DONTNEED, MADV_PAGEOUT, MADV_REMOVE, MAP_ANONYMOUS, MAP_FIXED, MAP_POPULATE, MAP_PRIVATE,
    MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, MS_SYNC, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, Fault, ForkMode, PageStatus, Process};
use samara_mm::walkers::PinFlags;
use samara_mm::{Call, FileArg, Prot};

use crate::world::{
    BASE, Disk, Hosted, PAGE, anonymous, byte, free_frames, machine, mapping, open, process,
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
    // Clean: nothing to write. The next write is noticed again, whichever process it comes from.
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
    // From the area's start, this many from there.
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

fn shared_anonymous(pages: u64, flags: u64) -> Call {
    Call::Mmap {
        addr: BASE,
        len: pages * PAGE,
        prot: RW,
        flags: MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | flags,
        file: FileArg::None,
        offset: 0,
    }
}

fn in_memory(process: &Process<Hosted>, pages: u64) -> Vec<u8> {
    let mut answer = vec![9; pages as usize];
    process.mincore(BASE, pages * PAGE, &mut answer).unwrap();
    answer
}

fn page_out(process: &Process<Hosted>, pages: u64) {
    let call = Call::Madvise {
        addr: BASE,
        len: pages * PAGE,
        advice: MADV_PAGEOUT,
    };
    process.perform(&call).unwrap();
}

/// Shared memory that was never written need not be kept: its pages leave memory. Written pages
/// stay, whatever has removed the page-table entry that was dirty.
#[test]
fn shared_memory_that_was_never_written_is_dropped() {
    const PAGES: u64 = 8;
    let machine = machine(256);
    let before = machine.stats().file;
    let process = process(&machine);
    process
        .perform(&shared_anonymous(PAGES, MAP_POPULATE))
        .unwrap();
    assert_eq!(machine.stats().file, before + PAGES);
    let call = |call: Call| process.perform(&call).unwrap();
    let part = |page: u64| (BASE + page * PAGE, PAGE);
    // 1: the entry is thrown away.
    process.copy_in(BASE + PAGE, b"1");
    let (addr, len) = part(1);
    call(Call::Madvise {
        addr,
        len,
        advice: MADV_DONTNEED,
    });
    // 2: it moves, and is unmapped there; another mapping of the object is left here.
    process.copy_in(BASE + 2 * PAGE, b"2");
    let (addr, _) = part(2);
    call(Call::Mremap {
        old_addr: addr,
        old_len: 0,
        new_len: PAGE,
        flags: MREMAP_MAYMOVE | MREMAP_FIXED,
        new_addr: OTHER,
    });
    assert_eq!(byte(&process, OTHER), Some(b'2'));
    call(Call::Munmap {
        addr: OTHER,
        len: PAGE,
    });
    // 3: read-only and back again.
    process.copy_in(BASE + 3 * PAGE, b"3");
    for prot in [PROT_READ, RW] {
        let (addr, len) = part(3);
        call(Call::Mprotect {
            addr,
            len,
            prot,
            pkey: -1,
        });
    }
    // 4: a child writes, and exits.
    let child = process.fork(ForkMode::Copy).unwrap();
    child.copy_in(BASE + 4 * PAGE, b"4");
    drop(child);
    // 5: a translation lets a program write, which sets no dirty bit.
    process.fault(BASE + 5 * PAGE, Access::WRITE).unwrap();
    let (phys, prot) = process.translate(BASE + 5 * PAGE).unwrap();
    assert!(prot.contains(Prot::WRITE));
    // SAFETY: a mapped frame, which no other code uses now.
    unsafe { machine.physical().to_virt(phys).write(b'5') };
    // 6: it may be read, so that who goes by translations has to fault before he writes.
    assert_eq!(byte(&process, BASE + 6 * PAGE), Some(0));
    let (_, prot) = process.translate(BASE + 6 * PAGE).unwrap();
    assert!(!prot.contains(Prot::WRITE));

    page_out(&process, PAGES);
    assert_eq!(in_memory(&process, PAGES), [0, 1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(machine.stats().file, before + 5);
    for page in 0..PAGES {
        let expected = match page {
            1..=5 => b'0' + page as u8,
            _ => 0,
        };
        assert_eq!(byte(&process, BASE + page * PAGE), Some(expected));
    }
    machine.check().unwrap();
}

/// A page that another process maps stays, as does one that is pinned.
#[test]
fn shared_memory_that_others_have_is_not_dropped() {
    let machine = machine(128);
    let process = process(&machine);
    process.perform(&shared_anonymous(3, MAP_POPULATE)).unwrap();
    let child = process.fork(ForkMode::Copy).unwrap();
    byte(&child, BASE + 2 * PAGE);
    // The read brought in what is around it.
    let unmap = Call::Munmap {
        addr: BASE,
        len: 2 * PAGE,
    };
    child.perform(&unmap).unwrap();
    let pinned = process.pin(BASE + PAGE, 1, PinFlags::GET).unwrap();
    page_out(&process, 3);
    assert_eq!(in_memory(&process, 3), [0, 1, 1]);
    drop(pinned);
    machine.check().unwrap();
}

/// Bytes that a program stores in the last page of a file beyond its end are not written back, and
/// are not part of the file when it grows. Those of shared memory are.
#[test]
fn what_is_stored_beyond_the_end_is_lost() {
    const END: u64 = PAGE + 2048;
    for (memory, longer_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let machine = machine(64);
        let disk = Disk::new(END as usize, memory);
        let file = open(&disk);
        let process = process(&machine);
        process
            .perform(&mapping(&file, BASE, 0, 2, RW, MAP_SHARED))
            .unwrap();
        assert_eq!(process.copy_in(BASE + END - 1, b"in beyond"), 9);
        let sync = Call::Msync {
            addr: BASE,
            len: 2 * PAGE,
            flags: MS_SYNC,
        };
        if !longer_first {
            process.perform(&sync).unwrap();
            let beyond = byte(&process, BASE + END);
            assert_eq!(beyond, Some(if memory { b'n' } else { 0 }));
        }
        disk.resize(2 * 4096);
        machine.extend(&file.object, END).unwrap();
        let beyond = byte(&process, BASE + END + 4);
        assert_eq!(beyond, Some(if memory { b'y' } else { 0 }));
        // What comes after that is the file's.
        assert_eq!(process.copy_in(BASE + END + 100, b"new"), 3);
        process.perform(&sync).unwrap();
        if !memory {
            let bytes = disk.bytes.lock().unwrap();
            let tail = &bytes[END as usize - 1..];
            assert_eq!((tail[0], &tail[1..101]), (b'i', &[0; 100][..]));
            assert_eq!(&tail[101..104], b"new");
        }
        machine.check().unwrap();
    }
}

/// The last page is written back by another mapping than the one by which it was written, or when all have gone.
#[test]
fn what_was_written_is_written_back_after_it_was_unmapped() {
    let machine = machine(64);
    let disk = Disk::new(4 * 4096, false);
    let file = open(&disk);
    let (one, two) = (process(&machine), process(&machine));
    for process in [&one, &two] {
        process
            .perform(&mapping(&file, BASE, 0, 4, RW, MAP_SHARED))
            .unwrap();
    }
    for page in 0..3 {
        assert_eq!(one.copy_in(BASE + page * PAGE, b"x"), 1);
    }
    let call = |call: Call| one.perform(&call).unwrap();
    call(Call::Munmap {
        addr: BASE,
        len: PAGE,
    });
    call(Call::Madvise {
        addr: BASE + PAGE,
        len: PAGE,
        advice: MADV_PAGEOUT,
    });
    call(Call::Madvise {
        addr: BASE + 2 * PAGE,
        len: PAGE,
        advice: MADV_DONTNEED,
    });
    drop(one);
    let sync = Call::Msync {
        addr: BASE,
        len: 4 * PAGE,
        flags: MS_SYNC,
    };
    two.perform(&sync).unwrap();
    assert_eq!(*disk.writes.lock().unwrap(), [0, 1, 2]);
    // Clean now: it may leave memory, and is read anew.
    for page in 0..3 {
        assert_eq!(byte(&two, BASE + page * PAGE), Some(b'x'));
    }
    page_out(&two, 4);
    assert_eq!(in_memory(&two, 4), [0; 4]);
    assert_eq!(byte(&two, BASE + PAGE), Some(b'x'));
    machine.check().unwrap();
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
