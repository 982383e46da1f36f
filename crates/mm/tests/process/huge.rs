//! Pages of 2 MiB.

use samara_mm::abi::{
    MADV_DONTNEED, MADV_HUGEPAGE, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{ForkMode, Machine, PageStatus, Process};
use samara_mm::{Call, PMD_SIZE};

use crate::world::{BASE, Hosted, PAGE, anonymous, byte, free_frames, machine, process};

const RW: u64 = PROT_READ | PROT_WRITE;
const PAGES: u64 = PMD_SIZE / PAGE;
const HUGE: PageStatus = PageStatus::HUGE;

/// A process with 4 MiB that ask for huge pages; both have been written.
fn huge() -> (Machine<Hosted>, Process<Hosted>) {
    let machine = machine(4096);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2 * PAGES, RW)).unwrap();
    let (addr, len, advice) = (BASE, 2 * PMD_SIZE, MADV_HUGEPAGE);
    process
        .perform(&Call::Madvise { addr, len, advice })
        .unwrap();
    for addr in [BASE + 5 * PAGE, BASE + PMD_SIZE] {
        process.copy_in(addr, b"huge");
        assert!(process.page(addr).contains(HUGE | PageStatus::EXCLUSIVE));
    }
    assert!(process.page(BASE + PMD_SIZE - PAGE).contains(HUGE));
    (machine, process)
}

#[test]
fn they_come_where_advised_and_go_as_a_whole() {
    let (machine, process) = huge();
    assert_eq!(machine.stats().anon, 2 * PAGES);
    let (addr, len) = (BASE, PMD_SIZE);
    process.perform(&Call::Munmap { addr, len }).unwrap();
    assert_eq!(machine.stats().anon, PAGES);
    machine.check().unwrap();
}

#[test]
fn what_a_call_cuts_is_divided() {
    let (machine, process) = huge();
    let addr = BASE + 5 * PAGE;
    let (len, advice) = (PAGE, MADV_DONTNEED);
    process
        .perform(&Call::Madvise { addr, len, advice })
        .unwrap();
    assert_eq!(byte(&process, addr), Some(0));
    let neighbour = process.page(BASE + 6 * PAGE);
    assert!(neighbour.contains(PageStatus::EXCLUSIVE) && !neighbour.contains(HUGE));
    let (addr, len) = (BASE + PMD_SIZE + PAGE, 3 * PAGE);
    let (prot, pkey) = (PROT_READ, -1);
    let call = Call::Mprotect {
        addr,
        len,
        prot,
        pkey,
    };
    process.perform(&call).unwrap();
    assert_eq!(process.copy_in(addr, b"x"), 0);
    assert_eq!(process.copy_in(BASE + PMD_SIZE, b"x"), 1);
    machine.check().unwrap();
}

#[test]
fn children_copy_what_they_write() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let (machine, parent) = huge();
        let child = parent.fork(mode).unwrap();
        machine.check().unwrap();
        assert_eq!(child.copy_in(BASE + 5 * PAGE, b"c"), 1);
        assert_eq!(byte(&parent, BASE + 5 * PAGE), Some(b'h'));
        assert_eq!(byte(&child, BASE + 5 * PAGE + 1), Some(b'u'));
        assert_eq!(parent.copy_in(BASE + PMD_SIZE, b"p"), 1);
        assert_eq!(byte(&child, BASE + PMD_SIZE), Some(b'h'));
        machine.check().unwrap();
        drop(parent);
        machine.check().unwrap();
        assert_eq!(child.copy_in(BASE + PMD_SIZE, b"c"), 1);
        machine.check().unwrap();
    }
}

#[test]
fn they_move() {
    let (machine, process) = huge();
    let move_to = |from, to| Call::Mremap {
        old_addr: from,
        old_len: PMD_SIZE,
        new_len: PMD_SIZE,
        flags: MREMAP_MAYMOVE | MREMAP_FIXED,
        new_addr: to,
    };
    let to = BASE + 8 * PMD_SIZE;
    process.perform(&move_to(BASE, to)).unwrap();
    assert!(process.page(to).contains(HUGE));
    assert_eq!(byte(&process, to + 5 * PAGE), Some(b'h'));
    // Not to a place that lies otherwise within 2 MiB.
    process.perform(&move_to(to, BASE - PAGE)).unwrap();
    assert!(!process.page(BASE + 4 * PAGE).contains(HUGE));
    assert_eq!(byte(&process, BASE + 4 * PAGE), Some(b'h'));
    machine.check().unwrap();
}

#[test]
fn without_a_block_pages_are_small() {
    let machine = machine(64);
    let before = free_frames(&machine);
    let process = process(&machine);
    process.perform(&anonymous(BASE, PAGES, RW)).unwrap();
    let (addr, len, advice) = (BASE, PMD_SIZE, MADV_HUGEPAGE);
    process
        .perform(&Call::Madvise { addr, len, advice })
        .unwrap();
    assert_eq!(process.copy_in(BASE, b"x"), 1);
    assert!(!process.page(BASE).contains(HUGE));
    assert_eq!(process.page(BASE + PAGE), PageStatus::empty());
    drop(process);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
}
