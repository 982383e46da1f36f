//! Merging of equal pages and collapsing of small ones, compared with a model of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use samara_mm::abi::{MADV_COLLAPSE, MADV_HUGEPAGE, MADV_MERGEABLE, MADV_UNMERGEABLE};
use samara_mm::process::{ForkMode, PageStatus, Process};
use samara_mm::walkers::{CollapseLimits, Khugepaged, Ksm, PinFlags};
use samara_mm::{Call, Errno};

use crate::world::{BASE, Hosted, PAGE, anonymous, byte, machine, process};

fn advise(process: &Process<Hosted>, page: u64, pages: u64, advice: i32) -> Result<u64, Errno> {
    process.perform(&Call::Madvise {
        addr: BASE + page * PAGE,
        len: pages * PAGE,
        advice,
    })
}

/// Makes an area of `pages` pages that may be merged, each filled with the value of the function.
fn filled(process: &Process<Hosted>, pages: u64, value: impl Fn(u64) -> u8) {
    process.perform(&anonymous(BASE, pages, 3)).unwrap();
    advise(process, 0, pages, MADV_MERGEABLE).unwrap();
    for page in 0..pages {
        let bytes = [value(page); PAGE as usize];
        assert_eq!(process.copy_in(BASE + page * PAGE, &bytes), bytes.len());
    }
}

/// Returns smaps' figure of pages on merged frames, for the areas that begin in these pages.
fn merged_bytes(process: &Process<Hosted>, first: u64, end: u64) -> u64 {
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    let (mut inside, mut sum) = (false, 0);
    for line in text.lines() {
        if let Some((start, _)) = line.split_once('-')
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            inside = (BASE + first * PAGE..BASE + end * PAGE).contains(&start);
        } else if let Some(size) = line.strip_prefix("KSM:")
            && inside
        {
            let size = size.trim().trim_end_matches(" kB");
            sum += size.parse::<u64>().unwrap() << 10;
        }
    }
    sum
}

fn pass(ksm: &mut Ksm<Hosted>, step: u64) -> u64 {
    let mut merged = 0;
    for _ in 0..10_000 {
        let stats = ksm.scan(step).unwrap();
        merged += stats.merged;
        if stats.finished {
            return merged;
        }
    }
    panic!("a pass does not end");
}

#[test]
fn as_many_frames_are_left_as_there_are_contents() {
    for (step, values) in [(1, 3), (7, 5), (1000, 30)] {
        let machine = machine(512);
        let (one, other) = (process(&machine), process(&machine));
        filled(&one, 40, |page| (page * 7 % values) as u8);
        filled(&other, 20, |page| (page % values) as u8 + 1);
        let mut ksm = Ksm::new(&machine);
        let mut model: BTreeMap<u8, u64> = BTreeMap::new();
        for page in 0..40 {
            *model.entry((page * 7 % values) as u8).or_default() += 1;
        }
        for page in 0..20 {
            *model.entry((page % values) as u8 + 1).or_default() += 1;
        }
        let merged = pass(&mut ksm, step);
        assert_eq!(merged, 60 - model.len() as u64);
        assert_eq!(machine.stats().anon, model.len() as u64);
        let several: Vec<u64> = model.values().copied().filter(|&n| n > 1).collect();
        let counts = (several.len() as u64, several.iter().sum());
        assert_eq!(ksm.counts(), counts);
        machine.check().unwrap();
        // Again: nothing is left to be done.
        assert_eq!(pass(&mut ksm, step), 0);
        // A write is the writer's alone.
        assert_eq!(one.copy_in(BASE, b"w"), 1);
        assert_eq!(byte(&one, BASE + 1), Some(0));
        for page in 1..40 {
            assert_eq!(
                byte(&one, BASE + page * PAGE),
                Some((page * 7 % values) as u8)
            );
        }
        for page in 0..20 {
            assert_eq!(
                byte(&other, BASE + page * PAGE),
                Some((page % values) as u8 + 1)
            );
        }
        // Merged ones go apart if that is asked for.
        advise(&one, 0, 40, MADV_UNMERGEABLE).unwrap();
        let frames: BTreeSet<_> = (0..40)
            .map(|page| one.translate(BASE + page * PAGE).unwrap().0)
            .collect();
        assert_eq!(frames.len(), 40);
        machine.check().unwrap();
        drop((one, other));
        assert_eq!(pass(&mut ksm, step), 0);
        assert_eq!((ksm.counts(), machine.stats().anon), ((0, 0), 0));
    }
}

#[test]
fn all_memory_may_be_merged_until_that_is_taken_back() {
    let machine = machine(64);
    let process = process(&machine);
    let merge = |on| process.perform(&Call::SetMemoryMerge { on });
    assert_eq!(merge(1), Ok(0));
    process.perform(&anonymous(BASE, 4, 3)).unwrap();
    for page in 0..4 {
        process.copy_in(BASE + page * PAGE, &[7; PAGE as usize]);
    }
    let mut ksm = Ksm::new(&machine);
    assert_eq!(pass(&mut ksm, 10), 3);
    assert_eq!(merged_bytes(&process, 0, 4), 4 * PAGE);
    assert_eq!(merge(0), Ok(0));
    assert_eq!((merged_bytes(&process, 0, 4), machine.stats().anon), (0, 5));
    assert_eq!(pass(&mut ksm, 10), 0);
    assert_eq!((ksm.counts(), machine.stats().anon), ((0, 0), 4));
    machine.check().unwrap();
}

#[test]
fn what_others_have_or_nobody_asked_for_stays() {
    let machine = machine(256);
    let process = process(&machine);
    filled(&process, 4, |_| 1);
    process.perform(&anonymous(BASE + 4 * PAGE, 1, 3)).unwrap();
    process.copy_in(BASE + 4 * PAGE, &[1; PAGE as usize]);
    let pins = process.pin(BASE, 1, PinFlags::WRITE).unwrap();
    let mut ksm = Ksm::new(&machine);
    assert_eq!(pass(&mut ksm, 3), 2);
    process.copy_in(BASE, b"d");
    assert_eq!(
        pins.frames().next(),
        Some(process.translate(BASE).unwrap().0)
    );
    process.copy_in(BASE, &[1]);
    drop(pins);
    // What was pinned is no different afterwards.
    assert_eq!(pass(&mut ksm, 3), 1);
    assert_eq!(machine.stats().anon, 2);
    let child = process.fork(ForkMode::Share).unwrap();
    child.copy_in(BASE, b"c");
    process.copy_in(BASE + PAGE, b"p");
    assert_eq!(byte(&process, BASE), Some(1));
    assert_eq!(byte(&child, BASE + PAGE), Some(1));
    drop(ksm);
    machine.check().unwrap();
}

#[test]
fn merging_beside_writes_forks_and_calls() {
    let machine = machine(2048);
    let process = process(&machine);
    process.expect_threads();
    filled(&process, 64, |_| 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (process, over) = (&process, &over);
            scope.spawn(move || {
                let mut round = 0u64;
                while !over.load(Ordering::Relaxed) {
                    round += 1;
                    for page in 0..16 {
                        let at = BASE + (thread * 16 + page) * PAGE;
                        let value = (round % 3) as u8;
                        assert_eq!(process.copy_in(at, &[value]), 1);
                        assert_eq!(byte(process, at), Some(value));
                    }
                }
            });
        }
        let mut ksm = Ksm::new(&machine);
        for round in 0..100 {
            pass(&mut ksm, 50);
            if round % 5 == 0 {
                let child = process.fork(ForkMode::Share).unwrap();
                pass(&mut ksm, 50);
                child.copy_in(BASE, b"c");
            }
            advise(&process, 32, 32, MADV_UNMERGEABLE).unwrap();
            assert_eq!(merged_bytes(&process, 32, 64), 0);
            advise(&process, 32, 32, MADV_MERGEABLE).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    machine.check().unwrap();
}

#[test]
fn stretches_within_the_limits_become_huge() {
    let limits = CollapseLimits {
        max_ptes_none: 100,
        max_ptes_shared: 10,
        max_ptes_swap: 0,
    };
    // Pages there, pages that a child has, too, and whether it is done.
    for (there, shared, done) in [
        (512, 0, true),
        (412, 0, true),
        (411, 0, false),
        (512, 10, true),
        (512, 11, false),
        (0, 0, false),
    ] {
        let machine = machine(4 << 10);
        let process = process(&machine);
        process.perform(&anonymous(BASE, 512, 3)).unwrap();
        for page in 0..there {
            process.copy_in(BASE + page * PAGE, &[page as u8]);
        }
        advise(&process, 0, 512, MADV_HUGEPAGE).unwrap();
        let child = process.fork(ForkMode::Copy).unwrap();
        for page in shared..there {
            child.copy_in(BASE + page * PAGE, b"c");
        }
        let mut khugepaged = Khugepaged::new(limits);
        // The parent's is the first.
        let stats = khugepaged.scan(&machine, 1).unwrap();
        assert_eq!(
            (stats.scanned, stats.collapsed),
            (u64::from(there > 0), u64::from(done)),
            "{there} {shared}"
        );
        assert_eq!(process.page(BASE).contains(PageStatus::HUGE), done);
        for page in 0..there {
            assert_eq!(byte(&process, BASE + page * PAGE), Some(page as u8));
        }
        machine.check().unwrap();
    }
}

#[test]
fn pinned_pages_do_not_move() {
    let machine = machine(4 << 10);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1024, 3)).unwrap();
    process.copy_in(BASE, b"a");
    process.copy_in(BASE + 512 * PAGE, b"b");
    advise(&process, 0, 1024, MADV_HUGEPAGE).unwrap();
    let pins = process.pin(BASE, 1, PinFlags::WRITE).unwrap();
    let stats = Khugepaged::default().scan(&machine, 10).unwrap();
    assert_eq!(
        (stats.scanned, stats.collapsed, stats.finished),
        (2, 1, true)
    );
    assert_eq!(advise(&process, 0, 512, MADV_COLLAPSE), Err(Errno::EAGAIN));
    process.copy_in(BASE, b"w");
    assert_eq!(
        pins.frames().next(),
        Some(process.translate(BASE).unwrap().0)
    );
    drop(pins);
    advise(&process, 0, 512, MADV_COLLAPSE).unwrap();
    assert_eq!(byte(&process, BASE), Some(b'w'));
    machine.check().unwrap();
}
