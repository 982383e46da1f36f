//! The effects of calls on pages.

use samara_mm::abi::{MADV_DONTNEED, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE};
use samara_mm::process::{Access, Fault, PageStatus};
use samara_mm::{Call, Prot};

use crate::world::{BASE, PAGE, anonymous, byte, free_frames, machine, process};

const RW: u64 = PROT_READ | PROT_WRITE;

#[test]
fn unmapping_gives_the_pages_back() {
    let machine = machine(64);
    let process = process(&machine);
    let before = free_frames(&machine);
    process.perform(&anonymous(BASE, 8, RW)).unwrap();
    process.copy_in(BASE, &[1; 8 * 4096]);
    let call = Call::Munmap {
        addr: BASE,
        len: 8 * PAGE,
    };
    process.perform(&call).unwrap();
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
    assert_eq!(byte(&process, BASE), None);
    // Mapped over: zeroes.
    process.perform(&anonymous(BASE, 8, RW)).unwrap();
    process.copy_in(BASE, &[1; 4096]);
    process.perform(&anonymous(BASE, 1, RW)).unwrap();
    assert_eq!(byte(&process, BASE), Some(0));
    machine.check().unwrap();
}

#[test]
fn protection_follows_at_once() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    process.copy_in(BASE, &[1; 8192]);
    let protect = |prot| Call::Mprotect {
        addr: BASE,
        len: PAGE,
        prot,
        pkey: -1,
    };
    process.perform(&protect(0)).unwrap();
    assert_eq!(process.translate(BASE), None);
    assert!(process.page(BASE).contains(PageStatus::PRESENT));
    assert_eq!(process.fault(BASE, Access::READ), Err(Fault::ACCERR));
    assert_eq!(process.copy_in(BASE + PAGE, b"2"), 1);
    process.perform(&protect(PROT_READ)).unwrap();
    let found = process.translate(BASE).unwrap();
    assert_eq!(found.1, Prot::READ);
    assert_eq!(process.copy_in(BASE, b"2"), 0);
    process.perform(&protect(RW)).unwrap();
    assert_eq!(byte(&process, BASE), Some(1));
    assert_eq!(process.copy_in(BASE, b"2"), 1);
    machine.check().unwrap();
}

#[test]
fn moved_pages_keep_their_bytes() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 3, RW)).unwrap();
    process.copy_in(BASE + PAGE, b"here");
    let call = Call::Mremap {
        old_addr: BASE,
        old_len: 3 * PAGE,
        new_len: 5 * PAGE,
        flags: MREMAP_MAYMOVE | samara_mm::abi::MREMAP_FIXED,
        new_addr: BASE + 0x40_0000,
    };
    let to = process.perform(&call).unwrap();
    let mut bytes = [0; 4];
    assert_eq!(process.copy_out(to + PAGE, &mut bytes), 4);
    assert_eq!(&bytes, b"here");
    assert_eq!(byte(&process, BASE + PAGE), None);
    assert_eq!(byte(&process, to + 4 * PAGE), Some(0));
    machine.check().unwrap();
}

#[test]
fn advice_empties_pages() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 3, RW)).unwrap();
    process.copy_in(BASE, &[7; 3 * 4096]);
    let call = Call::Madvise {
        addr: BASE + PAGE,
        len: PAGE,
        advice: MADV_DONTNEED,
    };
    process.perform(&call).unwrap();
    assert_eq!(process.page(BASE + PAGE), PageStatus::empty());
    assert_eq!(byte(&process, BASE + PAGE), Some(0));
    assert_eq!(byte(&process, BASE), Some(7));
    machine.check().unwrap();
}

#[test]
fn locking_fills_pages_in() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 3, RW)).unwrap();
    process.perform(&anonymous(BASE + 3 * PAGE, 1, 1)).unwrap();
    let call = Call::Mlock {
        addr: BASE,
        len: 4 * PAGE,
        flags: 0,
    };
    process.perform(&call).unwrap();
    for i in 0..3 {
        assert!(
            process
                .page(BASE + i * PAGE)
                .contains(PageStatus::EXCLUSIVE)
        );
    }
    assert!(process.page(BASE + 3 * PAGE).contains(PageStatus::ZERO));
}
