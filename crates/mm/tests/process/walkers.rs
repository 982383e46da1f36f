//! The smaller walkers, compared with naive models, and concurrently with changes.

use std::sync::atomic::{AtomicBool, Ordering};

use samara_mm::observe::{ClearRefs, TaskVmas};
use samara_mm::process::{Access, PageStatus, Process};
use samara_mm::walkers::{Charges, Damon, NumaScan};
use samara_mm::{Call, Errno};

use crate::world::{BASE, Disk, Hosted, PAGE, anonymous, byte, machine, mapping, open, process};

fn written(process: &Process<Hosted>, pages: u64) {
    process.perform(&anonymous(BASE, pages, 3)).unwrap();
    for page in 0..pages {
        assert_eq!(
            process.copy_in(BASE + page * PAGE, &[(page as u8).wrapping_add(1)]),
            1
        );
    }
}

fn soft_dirty(process: &Process<Hosted>, pages: u64) -> Vec<bool> {
    (0..pages)
        .map(|page| {
            process
                .page(BASE + page * PAGE)
                .contains(PageStatus::SOFT_DIRTY)
        })
        .collect()
}

fn referenced(process: &Process<Hosted>) -> u64 {
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("Referenced:"))
        .map(|rest| {
            rest.split_whitespace()
                .next()
                .unwrap()
                .parse::<u64>()
                .unwrap()
                / 4
        })
        .sum()
}

#[test]
fn marks_are_cleared_and_come_back_with_use() {
    let machine = machine(128);
    let process = process(&machine);
    written(&process, 6);
    let disk = Disk::new(3 * 4096, false);
    let file = open(&disk);
    process
        .perform(&mapping(&file, BASE + 6 * PAGE, 0, 2, 3, 1))
        .unwrap();
    process.copy_in(BASE + 6 * PAGE, &[5; 2 * PAGE as usize]);
    assert_eq!(
        (soft_dirty(&process, 8), referenced(&process)),
        (vec![true; 8], 8)
    );
    process.clear_refs(ClearRefs::SoftDirty).unwrap();
    assert_eq!(soft_dirty(&process, 8), [false; 8]);
    // What is read is not written.
    for page in 0..8 {
        assert!(byte(&process, BASE + page * PAGE).is_some());
    }
    assert_eq!(soft_dirty(&process, 8), [false; 8]);
    for page in [1, 4, 7] {
        process.copy_in(BASE + page * PAGE, b"w");
    }
    let dirty: Vec<_> = (0..8).map(|page| [1, 4, 7].contains(&page)).collect();
    assert_eq!(soft_dirty(&process, 8), dirty);
    process.clear_refs(ClearRefs::Anonymous).unwrap();
    assert_eq!(referenced(&process), 2);
    process.clear_refs(ClearRefs::Mapped).unwrap();
    assert_eq!(referenced(&process), 0);
    assert_eq!(byte(&process, BASE), Some(1));
    assert_eq!(byte(&process, BASE + 7 * PAGE), Some(b'w'));
    assert_eq!(referenced(&process), 2);
    process.clear_refs(ClearRefs::All).unwrap();
    assert_eq!(referenced(&process), 0);
    process.clear_refs(ClearRefs::PeakRss).unwrap();
    machine.check().unwrap();
}

#[test]
fn no_write_is_missed_beside_clearing() {
    let machine = machine(256);
    let process = process(&machine);
    process.expect_threads();
    written(&process, 8);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (process, over) = (&process, &over);
        scope.spawn(move || {
            for round in 0..2000u64 {
                let at = BASE + round % 8 * PAGE;
                process.copy_in(at, &[round as u8]);
                assert_eq!(byte(process, at), Some(round as u8));
            }
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            process.clear_refs(ClearRefs::SoftDirty).unwrap();
        }
    });
    process.clear_refs(ClearRefs::SoftDirty).unwrap();
    process.copy_in(BASE, b"x");
    assert_eq!(soft_dirty(&process, 2), [true, false]);
    machine.check().unwrap();
}

#[test]
fn a_scan_goes_round_by_parts_and_faults_give_access_back() {
    let machine = machine(4 << 10);
    let process = process(&machine);
    written(&process, 10);
    process.perform(&anonymous(BASE + 20 * PAGE, 5, 3)).unwrap();
    process.copy_in(BASE + 20 * PAGE, &[1; 5 * PAGE as usize]);
    let disk = Disk::new(3 * 4096, false);
    let file = open(&disk);
    // Only read: code, libraries.
    process
        .perform(&mapping(&file, BASE + 30 * PAGE, 0, 2, 1, 2))
        .unwrap();
    assert_eq!(byte(&process, BASE + 30 * PAGE), Some(1));
    process
        .perform(&anonymous(BASE + 512 * PAGE, 2, 3))
        .unwrap();
    process.copy_in(BASE + 512 * PAGE, &[1; 2 * PAGE as usize]);
    let mut scan = NumaScan::default();
    let mut all = 0;
    let mut parts = 0;
    loop {
        let stats = scan.scan(&process, 3).unwrap();
        all += stats.pages;
        parts += 1;
        if stats.finished {
            break;
        }
        assert!(scan.next() > 0);
    }
    assert_eq!(all, 17);
    assert!(parts >= 3);
    assert_eq!(scan.next(), 0);
    assert_eq!(process.translate(BASE), None);
    assert!(process.translate(BASE + 30 * PAGE).is_some());
    // There are no more to be made to fault.
    let stats = scan.scan(&process, 1000).unwrap();
    assert_eq!((stats.pages, stats.finished), (0, true));
    process.fault(BASE, Access::WRITE).unwrap();
    for page in 0..10 {
        assert_eq!(byte(&process, BASE + page * PAGE), Some(page as u8 + 1));
    }
    process.copy_in(BASE, b"w");
    assert_eq!(byte(&process, BASE), Some(b'w'));
    machine.check().unwrap();
}

struct Group(Vec<u64>, usize);

impl Charges for Group {
    fn charge(&mut self, frame: u64) -> bool {
        let room = self.0.len() < self.1;
        if room {
            self.0.push(frame);
        }
        room
    }
}

#[test]
fn charges_move_in_parts() {
    let machine = machine(128);
    let process = process(&machine);
    written(&process, 7);
    let disk = Disk::new(3 * 4096, false);
    let file = open(&disk);
    process
        .perform(&mapping(&file, BASE + 7 * PAGE, 0, 2, 1, 1))
        .unwrap();
    assert_eq!(byte(&process, BASE + 7 * PAGE), Some(1));
    for files in [false, true] {
        let mut group = Group(Vec::new(), 0);
        let mut from = 0;
        loop {
            group.1 += 2;
            match process.move_charges(from, files, &mut group) {
                Some(next) => from = next,
                None => break,
            }
        }
        let present = (0..9).filter_map(|page| {
            let at = BASE + page * PAGE;
            process
                .translate(at)
                .filter(|_| files || page < 7)
                .map(|found| found.0)
        });
        let frames: Vec<u64> = present.collect();
        assert_eq!(group.0, frames);
    }
    // A page that a child has, too, is not exclusive.
    let child = process.fork(samara_mm::process::ForkMode::Copy).unwrap();
    child.copy_in(BASE, b"c");
    let mut group = Group(Vec::new(), 100);
    assert_eq!(process.move_charges(0, false, &mut group), None);
    assert_eq!(group.0, [process.translate(BASE).unwrap().0]);
}

#[test]
#[allow(clippy::single_range_in_vec_init, reason = "targets are ranges")]
fn regions_cover_their_targets_and_find_what_is_used() {
    let machine = machine(4 << 10);
    let process = process(&machine);
    written(&process, 1000);
    let all = BASE..BASE + 1000 * PAGE;
    let targets = [all.clone(), BASE + (1 << 30)..BASE + (1 << 30) + 4 * PAGE];
    let mut damon = Damon::new(&targets, 10, 60, 7).unwrap();
    let covers = |damon: &Damon, targets: &[std::ops::Range<u64>]| {
        let mut regions = damon.regions().iter();
        for target in targets {
            let mut at = target.start;
            while at < target.end {
                let region = regions.next().unwrap();
                assert_eq!(region.start, at);
                assert!(region.end > at && region.end.is_multiple_of(PAGE));
                at = region.end;
            }
            assert_eq!(at, target.end);
        }
        assert!(regions.next().is_none());
    };
    covers(&damon, &targets);
    let (mut hot, mut cold) = (0, 0);
    for round in 0..60 {
        for _ in 0..10 {
            damon.sample(&process).unwrap();
            // The second quarter is used.
            for page in 250..500 {
                byte(&process, BASE + page * PAGE);
            }
        }
        damon.sample(&process).unwrap();
        damon.aggregate(2, |regions| {
            assert!(regions.len() <= 60);
            if round < 20 {
                return;
            }
            for region in regions {
                let pages = (region.end - region.start) / PAGE;
                let middle = (region.start + region.end) / 2 - BASE;
                if (250 * PAGE..500 * PAGE).contains(&middle) {
                    hot += u64::from(region.accesses) * pages;
                } else {
                    cold += u64::from(region.accesses) * pages;
                }
            }
        });
        covers(&damon, &targets);
    }
    // Three times as many pages are cold.
    assert!(hot > 3 * cold, "{hot} {cold}");
    let fewer = [all.start + 100 * PAGE..all.end - 100 * PAGE];
    damon.update(&fewer).unwrap();
    covers(&damon, &fewer);
    let more = [0x1000..0x4000, all.start..all.end + 7 * PAGE];
    damon.update(&more).unwrap();
    covers(&damon, &more);
    damon.sample(&process).unwrap();
    for wrong in [
        &[5..PAGE][..],
        &[PAGE..PAGE],
        &[PAGE..3 * PAGE, 2 * PAGE..4 * PAGE],
    ] {
        assert_eq!(Damon::new(wrong, 1, 9, 1).unwrap_err(), Errno::EINVAL);
        assert_eq!(damon.update(wrong), Err(Errno::EINVAL));
    }
    machine.check().unwrap();
}

#[test]
fn an_iteration_misses_no_area_that_stays() {
    let machine = machine(64);
    let process = process(&machine);
    for i in 0..100 {
        process
            .perform(&anonymous(BASE + 4 * i * PAGE, 1, 3))
            .unwrap();
    }
    let mut iteration = TaskVmas::default();
    let mut seen = Vec::new();
    let mut random = 1u64;
    while let Some((start, end)) =
        process.with_space(|space| iteration.next(space).map(|area| (area.start, area.end)))
    {
        assert!(seen.last().is_none_or(|&last| last < end));
        seen.push(start);
        // Others come, go and grow at odd places.
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
        let at = BASE + (((random >> 33) % 400) | 1) * PAGE;
        let call = if random >> 63 == 0 {
            anonymous(at, 1, 1)
        } else {
            Call::Munmap {
                addr: at,
                len: PAGE,
            }
        };
        process.perform(&call).unwrap();
    }
    for i in 0..100 {
        assert!(seen.contains(&(BASE + 4 * i * PAGE)));
    }
}
