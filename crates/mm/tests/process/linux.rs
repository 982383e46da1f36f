//! Observations on Linux 6.18 that are easy to get wrong.

use samara_mm::abi::{
    MADV_POPULATE_READ, MAP_ANONYMOUS, MAP_FIXED, MAP_GROWSDOWN, MAP_PRIVATE, MREMAP_DONTUNMAP,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, Fault, ForkMode, PageStatus, Process};
use samara_mm::{Call, Config, Errno, FileArg, Layout, Limits, VmFlags};

use crate::world::{BASE, Disk, PAGE, anonymous, byte, machine, mapping, open, process};

const RW: u64 = PROT_READ | PROT_WRITE;
const OTHER: u64 = BASE + 0x100_0000;

fn mremap(from: u64, old: u64, new: u64, flags: u64, to: u64) -> Call {
    Call::Mremap {
        old_addr: from,
        old_len: old * PAGE,
        new_len: new * PAGE,
        flags,
        new_addr: to,
    }
}

fn mlock(addr: u64, pages: u64) -> Call {
    Call::Mlock {
        addr,
        len: pages * PAGE,
        flags: 0,
    }
}

#[test]
fn moving_a_part_and_keeping_it_unlocks_all_of_the_source() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 4, RW)).unwrap();
    process.perform(&mlock(BASE, 4)).unwrap();
    process.copy_in(BASE + PAGE, b"x");
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    process
        .perform(&mremap(BASE + PAGE, 1, 1, flags, OTHER))
        .unwrap();
    let locked = |addr| {
        process.with_space(|space| {
            let area = space.lookup(addr).unwrap();
            (area.len() / PAGE, area.vma.flags.contains(VmFlags::LOCKED))
        })
    };
    assert_eq!(locked(BASE), (4, false));
    assert_eq!(locked(OTHER), (1, true));
    assert_eq!(byte(&process, OTHER), Some(b'x'));
    assert_eq!(process.page(BASE + PAGE), PageStatus::empty());
    assert_eq!(byte(&process, BASE + PAGE), Some(0));
    machine.check().unwrap();
}

#[test]
fn several_areas_move_with_their_gaps() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, RW)).unwrap();
    process.perform(&anonymous(BASE + 2 * PAGE, 1, RW)).unwrap();
    process.perform(&anonymous(OTHER, 3, RW)).unwrap();
    for (addr, value) in [(BASE, b"a"), (BASE + 2 * PAGE, b"b"), (OTHER + PAGE, b"c")] {
        process.copy_in(addr, value);
    }
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    process.perform(&mremap(BASE, 3, 3, flags, OTHER)).unwrap();
    // What lay under the gap stays.
    let bytes = [0, 1, 2].map(|i| byte(&process, OTHER + i * PAGE));
    assert_eq!(bytes, [Some(b'a'), Some(b'c'), Some(b'b')]);
    assert_eq!(byte(&process, BASE), None);
    machine.check().unwrap();
}

#[test]
fn nothing_moved_onto_itself_is_unmapped() {
    let machine = machine(64);
    let disk = Disk::new(4096, true);
    let process = process(&machine);
    let file = open(&disk);
    let shared = samara_mm::abi::MAP_SHARED;
    process
        .perform(&mapping(&file, BASE, 0, 1, RW, shared))
        .unwrap();
    process.copy_in(BASE, b"x");
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    let result = process.perform(&mremap(BASE, 0, 1, flags, BASE));
    assert_eq!(result, Err(Errno::EFAULT));
    assert_eq!(process.fault(BASE, Access::READ), Err(Fault::MAPERR));
    assert_eq!(process.page(BASE), PageStatus::empty());
    machine.check().unwrap();
}

#[test]
fn locking_what_cannot_be_accessed_fails_and_locks() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, PROT_NONE)).unwrap();
    assert_eq!(process.perform(&mlock(BASE, 1)), Err(Errno::ENOMEM));
    let flags = process.with_space(|space| space.lookup(BASE).unwrap().vma.flags);
    assert!(flags.contains(VmFlags::LOCKED));
    assert_eq!(process.page(BASE), PageStatus::empty());
}

#[test]
fn write_only_memory_is_read_but_not_filled_in_for_reading() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, PROT_WRITE)).unwrap();
    let populate = Call::Madvise {
        addr: BASE,
        len: PAGE,
        advice: MADV_POPULATE_READ,
    };
    assert_eq!(process.perform(&populate), Err(Errno::EINVAL));
    assert_eq!(byte(&process, BASE), Some(0));
}

#[test]
fn a_stack_without_access_grows_before_it_refuses() {
    let machine = machine(64);
    let process = process(&machine);
    let stack = |addr| Call::Mmap {
        addr,
        len: PAGE,
        prot: PROT_NONE,
        flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN,
        file: FileArg::None,
        offset: 0,
    };
    let start = |addr| process.with_space(|space| space.find(addr).unwrap().start);
    process.perform(&stack(BASE)).unwrap();
    let below = BASE - 3 * PAGE;
    assert_eq!(process.fault(below, Access::READ), Err(Fault::ACCERR));
    assert_eq!(start(below), below);
    // Not if something accessible is near.
    process.perform(&stack(OTHER)).unwrap();
    process
        .perform(&anonymous(OTHER - 200 * PAGE, 1, RW))
        .unwrap();
    let below = OTHER - 3 * PAGE;
    assert_eq!(process.fault(below, Access::READ), Err(Fault::MAPERR));
    assert_eq!(start(below), OTHER);
}

#[test]
fn what_can_be_executed_only_is_not_copied_although_its_page_is_present() {
    let machine = machine(64);
    let config = Config {
        pkeys: true,
        ..Config::default()
    };
    let process = Process::new(&machine, config, Limits::default(), Layout::default()).unwrap();
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    process.copy_in(BASE, b"x");
    let protect = |prot| {
        let call = Call::Mprotect {
            addr: BASE,
            len: PAGE,
            prot,
            pkey: -1,
        };
        process.perform(&call).unwrap();
    };
    protect(PROT_EXEC);
    assert_eq!(byte(&process, BASE), None);
    assert_eq!(process.fault(BASE, Access::READ), Err(Fault::PKUERR));
    assert_eq!(process.fault(BASE, Access::EXEC), Ok(()));
    assert_eq!(process.copy_in(BASE + PAGE, b"y"), 1);
    let child = process.fork(ForkMode::Share).unwrap();
    assert_eq!(byte(&child, BASE), None);
    protect(PROT_READ);
    assert_eq!(byte(&process, BASE), Some(b'x'));
    assert_eq!(byte(&child, BASE), None);
}
