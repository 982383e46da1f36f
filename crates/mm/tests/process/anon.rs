//! Private memory.

use samara_mm::process::{Access, Fault, PageStatus};

use crate::world::{BASE, PAGE, anonymous, byte, free_frames, machine, process};

const PRESENT: PageStatus = PageStatus::PRESENT;
const OWN: PageStatus = PRESENT
    .union(PageStatus::EXCLUSIVE)
    .union(PageStatus::SOFT_DIRTY);

#[test]
fn a_read_finds_zeroes_and_a_write_a_page() {
    let machine = machine(64);
    let before = free_frames(&machine);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 4, 3)).unwrap();
    assert_eq!(process.page(BASE), PageStatus::empty());
    assert_eq!(byte(&process, BASE), Some(0));
    assert_eq!(process.page(BASE), PRESENT | PageStatus::ZERO);
    assert_eq!(process.copy_in(BASE, b"x"), 1);
    assert_eq!(process.page(BASE), OWN);
    assert_eq!(byte(&process, BASE), Some(b'x'));
    assert_eq!(
        process.fault(BASE + 4 * PAGE, Access::READ),
        Err(Fault::MAPERR)
    );
    machine.check().unwrap();
    drop(process);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), before);
}

#[test]
fn copies_cross_pages_and_stop_at_the_end() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, 3)).unwrap();
    let bytes: Vec<u8> = (0..4096u32).map(|i| i as u8).collect();
    assert_eq!(process.copy_in(BASE + 2049, &bytes), 4096);
    assert_eq!(process.copy_in(BASE + 4097, &bytes), 4095);
    let mut out = vec![0; 8192];
    assert_eq!(process.copy_out(BASE, &mut out), 8192);
    assert_eq!(out[2049..4097], bytes[..2048]);
    assert_eq!(out[4097..], bytes[..4095]);
    assert_eq!(process.copy_out(BASE + 1, &mut out), 8191);
}

#[test]
fn signals_have_linux_codes() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, 1)).unwrap();
    process.perform(&anonymous(BASE + PAGE, 1, 0)).unwrap();
    process.perform(&anonymous(BASE + 2 * PAGE, 1, 2)).unwrap();
    assert_eq!(process.fault(BASE, Access::READ), Ok(()));
    assert_eq!(process.fault(BASE, Access::WRITE), Err(Fault::ACCERR));
    assert_eq!(process.fault(BASE + PAGE, Access::READ), Err(Fault::ACCERR));
    assert_eq!(process.fault(BASE + 2 * PAGE, Access::READ), Ok(()));
    // A fetch maps the page before it fails.
    assert_eq!(
        process.fault(BASE + 2 * PAGE, Access::EXEC),
        Err(Fault::ACCERR)
    );
    assert!(process.page(BASE + 2 * PAGE).contains(PRESENT));
}

#[test]
fn atomics_take_faults() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, 3)).unwrap();
    let add = |n| {
        process.atomic_u32(BASE + 8, |word| {
            word.fetch_add(n, std::sync::atomic::Ordering::SeqCst)
        })
    };
    assert_eq!(add(5), Ok(0));
    assert_eq!(add(1), Ok(5));
    assert_eq!(process.atomic_u32(BASE + 2, |_| ()), Err(Fault::ADRALN));
}
