//! The effects of advice on pages: clean, cold, dropped, collapsed. As on Linux 6.18, observed by
//! `smaps`.

use std::sync::atomic::{AtomicBool, Ordering};

use samara_mm::abi::{
    MADV_COLD, MADV_COLLAPSE, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_PAGEOUT,
    MADV_POPULATE_WRITE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, ForkMode, PageStatus, Process};
use samara_mm::{Call, Errno, PMD_SIZE};

use crate::world::{
    BASE, Disk, Hosted, PAGE, anonymous, byte, free_frames, machine, mapping, open, process,
};

const RW: u64 = PROT_READ | PROT_WRITE;
const PAGES: u64 = PMD_SIZE / PAGE;

fn advise(process: &Process<Hosted>, page: u64, pages: u64, advice: i32) -> Result<u64, Errno> {
    process.perform(&Call::Madvise {
        addr: BASE + page * PAGE,
        len: pages * PAGE,
        advice,
    })
}

/// Pages that smaps counts under a label, in all areas.
fn count(process: &Process<Hosted>, label: &str) -> u64 {
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let number = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
    lines.filter_map(number).sum::<u64>() / 4
}

fn written(process: &Process<Hosted>, pages: u64) {
    process.perform(&anonymous(BASE, pages, RW)).unwrap();
    for page in 0..pages {
        assert_eq!(process.copy_in(BASE + page * PAGE, &[page as u8 + 1]), 1);
    }
}

/// Processors that leave accessed and dirty bits to software take a fault for each, on a page that is there and allows the access.
#[test]
fn faults_note_what_the_processor_leaves_to_software() {
    let machine = machine(64);
    let process = process(&machine);
    written(&process, 4);
    advise(&process, 0, 4, MADV_FREE).unwrap();
    assert_eq!(count(&process, "Referenced:"), 0);
    process.fault(BASE, Access::READ).unwrap();
    assert_eq!(count(&process, "Referenced:"), 1);
    assert_eq!(count(&process, "LazyFree:"), 4);
    process.fault(BASE + PAGE, Access::WRITE).unwrap();
    assert_eq!(count(&process, "Referenced:"), 2);
    assert_eq!(count(&process, "LazyFree:"), 3);
    // In tables that two share, too.
    let child = process.fork(ForkMode::Share).unwrap();
    child.fault(BASE + 2 * PAGE, Access::READ).unwrap();
    assert_eq!(count(&child, "Referenced:"), 3);
    machine.check().unwrap();
}

#[test]
fn freed_pages_are_dropped_unless_they_are_written_again() {
    let machine = machine(64);
    let process = process(&machine);
    written(&process, 4);
    advise(&process, 0, 4, MADV_FREE).unwrap();
    assert_eq!(count(&process, "LazyFree:"), 4);
    assert_eq!(count(&process, "Private_Clean:"), 4);
    assert_eq!(count(&process, "Referenced:"), 0);
    assert_eq!(byte(&process, BASE), Some(1));
    process.copy_in(BASE + PAGE, b"x");
    advise(&process, 2, 1, MADV_POPULATE_WRITE).unwrap();
    assert_eq!(count(&process, "LazyFree:"), 2);
    assert_eq!(count(&process, "Private_Dirty:"), 2);
    advise(&process, 0, 4, MADV_PAGEOUT).unwrap();
    let bytes: Vec<_> = (0..4)
        .map(|page| byte(&process, BASE + page * PAGE))
        .collect();
    assert_eq!(bytes, [Some(0), Some(b'x'), Some(3), Some(0)]);
    machine.check().unwrap();
}

#[test]
fn pages_that_a_relative_has_locked_become_clean_and_are_needed() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let machine = machine(64);
        let parent = process(&machine);
        written(&parent, 4);
        let child = parent.fork(mode).unwrap();
        // As they come; and they have moved since.
        let lock = |pages, flags| Call::Mlock {
            addr: BASE,
            len: pages * PAGE,
            flags,
        };
        child.perform(&lock(2, 1)).unwrap();
        child
            .perform(&Call::Mremap {
                old_addr: BASE,
                old_len: 2 * PAGE,
                new_len: 2 * PAGE,
                flags: MREMAP_MAYMOVE | MREMAP_FIXED,
                new_addr: BASE + 0x100_0000,
            })
            .unwrap();
        advise(&parent, 0, 4, MADV_FREE).unwrap();
        let counts = || ["LazyFree:", "Shared_Clean:"].map(|label| count(&parent, label));
        assert_eq!(counts(), [2, 4]);
        // What was decided stays, until it is decided anew.
        child.perform(&Call::Munlockall).unwrap();
        assert_eq!(counts(), [2, 4]);
        advise(&parent, 0, 1, MADV_FREE).unwrap();
        assert_eq!(counts(), [3, 4]);
        drop(child);
        advise(&parent, 0, 4, MADV_PAGEOUT).unwrap();
        let bytes = [0, 1, 2, 3].map(|page| byte(&parent, BASE + page * PAGE));
        assert_eq!(bytes, [Some(0), Some(2), Some(0), Some(0)]);
        advise(&parent, 1, 1, MADV_FREE).unwrap();
        advise(&parent, 1, 1, MADV_PAGEOUT).unwrap();
        assert_eq!(byte(&parent, BASE + PAGE), Some(0));
        machine.check().unwrap();
    }
}

#[test]
fn pages_that_a_child_has_too_are_clean_in_one_and_stay() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let machine = machine(64);
        let parent = process(&machine);
        written(&parent, 2);
        let child = parent.fork(mode).unwrap();
        advise(&parent, 0, 2, MADV_FREE).unwrap();
        advise(&parent, 0, 2, MADV_PAGEOUT).unwrap();
        assert_eq!(count(&parent, "Shared_Clean:"), 2);
        assert_eq!(count(&child, "Shared_Dirty:"), 2);
        assert_eq!(
            (byte(&parent, BASE), byte(&child, BASE)),
            (Some(1), Some(1))
        );
        drop(child);
        advise(&parent, 0, 1, MADV_PAGEOUT).unwrap();
        assert_eq!(
            (byte(&parent, BASE), byte(&parent, BASE + PAGE)),
            (Some(0), Some(2))
        );
        machine.check().unwrap();
    }
}

#[test]
fn pages_of_files_leave_the_tables_and_stay_in_memory() {
    let machine = machine(64);
    let process = process(&machine);
    let file = open(&Disk::new(4 * 4096, true));
    process
        .perform(&mapping(&file, BASE, 0, 4, RW, MAP_SHARED))
        .unwrap();
    process.copy_in(BASE, b"kept");
    advise(&process, 0, 4, MADV_PAGEOUT).unwrap();
    assert_eq!(process.page(BASE), PageStatus::empty());
    assert_eq!(byte(&process, BASE), Some(b'k'));
    machine.check().unwrap();
}

#[test]
fn cold_pages_count_as_not_used() {
    let machine = machine(64);
    let parent = process(&machine);
    written(&parent, 2);
    advise(&parent, 0, 1, MADV_COLD).unwrap();
    assert_eq!(count(&parent, "Referenced:"), 1);
    byte(&parent, BASE);
    assert_eq!(count(&parent, "Referenced:"), 2);
    let child = parent.fork(ForkMode::Copy).unwrap();
    advise(&parent, 0, 2, MADV_COLD).unwrap();
    assert_eq!(count(&parent, "Referenced:"), 2);
    drop(child);
}

#[test]
fn small_pages_are_put_together_where_there_are_any() {
    let machine = machine(4096);
    let free = free_frames(&machine);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2 * PAGES, RW)).unwrap();
    assert_eq!(
        advise(&process, 0, PAGES, MADV_COLLAPSE),
        Err(Errno::EINVAL)
    );
    process.copy_in(BASE + 7 * PAGE, b"x");
    let child = process.fork(ForkMode::Share).unwrap();
    assert_eq!(
        advise(&process, 0, 2 * PAGES, MADV_COLLAPSE),
        Err(Errno::EINVAL)
    );
    assert_eq!(advise(&process, 0, PAGES, MADV_COLLAPSE), Ok(0));
    assert_eq!(count(&process, "AnonHugePages:"), PAGES);
    assert_eq!(count(&process, "Private_Dirty:"), PAGES);
    assert_eq!(byte(&process, BASE + 7 * PAGE), Some(b'x'));
    assert_eq!(byte(&process, BASE + 8 * PAGE), Some(0));
    assert_eq!(byte(&child, BASE + 7 * PAGE), Some(b'x'));
    process.copy_in(BASE + 7 * PAGE, b"y");
    assert_eq!(byte(&child, BASE + 7 * PAGE), Some(b'x'));
    machine.check().unwrap();
    drop((process, child));
    assert_eq!(free_frames(&machine), free);
}

#[test]
fn huge_pages_become_clean_as_a_whole_or_in_parts() {
    let machine = machine(4096);
    let process = process(&machine);
    process.perform(&anonymous(BASE, PAGES, RW)).unwrap();
    advise(&process, 0, PAGES, MADV_HUGEPAGE).unwrap();
    process.copy_in(BASE, b"x");
    advise(&process, 0, PAGES, MADV_FREE).unwrap();
    assert_eq!(count(&process, "AnonHugePages:"), PAGES);
    assert_eq!(count(&process, "LazyFree:"), PAGES);
    process.copy_in(BASE, b"y");
    assert_eq!(count(&process, "LazyFree:"), 0);
    let child = process.fork(ForkMode::Copy).unwrap();
    advise(&process, 0, 10, MADV_FREE).unwrap();
    // Another has it, too: it is not divided for that.
    assert_eq!(count(&process, "AnonHugePages:"), PAGES);
    assert_eq!(count(&process, "LazyFree:"), 0);
    drop(child);
    advise(&process, 0, 10, MADV_FREE).unwrap();
    assert_eq!(count(&process, "AnonHugePages:"), 0);
    assert_eq!(count(&process, "LazyFree:"), 10);
    machine.check().unwrap();
}

#[test]
fn a_huge_page_is_divided_where_its_area_is() {
    let machine = machine(4096);
    let process = process(&machine);
    process.perform(&anonymous(BASE, PAGES, RW)).unwrap();
    advise(&process, 0, PAGES, MADV_HUGEPAGE).unwrap();
    process.copy_in(BASE, b"x");
    advise(&process, 0, 100, MADV_NOHUGEPAGE).unwrap();
    assert_eq!(count(&process, "AnonHugePages:"), 0);
    assert_eq!(machine.stats().anon, PAGES);
    machine.check().unwrap();
}

/// A write that comes while clean pages are dropped is either there, or was never lost: it makes the page dirty first.
#[test]
fn what_is_written_beside_advice_stays() {
    let machine = machine(64);
    let process = process(&machine);
    written(&process, 2);
    process.expect_threads();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                advise(&process, 0, 2, MADV_FREE).unwrap();
                advise(&process, 0, 1, MADV_PAGEOUT).unwrap();
            }
        });
        for round in 0..if cfg!(miri) { 20 } else { 20_000 } {
            // The second page is never dropped, and only this thread writes to it.
            process.copy_in(BASE + PAGE, &[round as u8]);
            assert_eq!(byte(&process, BASE + PAGE), Some(round as u8));
            process.copy_in(BASE, &[round as u8 | 1]);
            let found = byte(&process, BASE);
            assert!(found == Some(round as u8 | 1) || found == Some(0));
        }
        done.store(true, Ordering::Relaxed);
    });
    machine.check().unwrap();
}
