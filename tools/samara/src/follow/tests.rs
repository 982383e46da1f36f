//! Histories that only alternatives explain.

use super::*;
use crate::maps::{self, Map};
use samara_mm::{FileArg, Layout, SeedVma, VmFlags};
use std::num::NonZeroU32;

const FIXED: u64 = 0x32;

fn mmap(addr: u64, len: u64, flags: u64) -> Call {
    Call::Mmap {
        addr,
        len,
        prot: 3,
        flags,
        file: FileArg::None,
        offset: 0,
    }
}

fn protect(addr: u64, len: u64, prot: u64) -> Call {
    Call::Mprotect {
        addr,
        len,
        prot,
        pkey: -1,
    }
}

fn read_only(addr: u64) -> Call {
    protect(addr, 0x1000, 1)
}

fn unmap(addr: u64, len: u64) -> Call {
    Call::Munmap { addr, len }
}

/// A call, what the kernel returned, and what was found written before and while it was under way.
type Step<'a> = (Call, i64, &'a [Range], Option<&'a [Range]>);

fn follow(calls: &[Step<'_>]) -> Follower {
    let engine =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    let mut follower = Follower::new(engine, false);
    for (call, returned, before, after) in calls {
        let evidence = Evidence {
            before,
            after: *after,
        };
        let (verdict, own) =
            follower.perform(call, *returned, evidence, &mut Listed(evidence.before));
        assert_eq!((verdict, own), (Verdict::Agrees, *returned), "{call:?}");
    }
    follower
}

fn kernel(lines: &[&str]) -> Map {
    let mut map = Map::default();
    map.refill::<maps::BadLine>(|text| {
        for line in lines {
            text.extend_from_slice(format!("{line} 00000000 00:00 0\n").as_bytes());
        }
        Ok(())
    })
    .unwrap();
    map
}

/// Two writes in two calls, each of which may have come before or after: what the second lends depends on what the first took.
fn two_races() -> Follower {
    const MIDDLE: Range = (0x11_e000, 0x12_0000);
    const LOW: Range = (0x11_c000, 0x11_e000);
    follow(&[
        (mmap(0x12_0000, 0x4000, FIXED), 0x12_0000, &[], None),
        // Read-only below, both with one owner.
        (read_only(0x12_0000), 0, &[(0x12_0000, 0x12_4000)], None),
        (mmap(MIDDLE.0, 0x2000, FIXED), MIDDLE.0 as i64, &[], None),
        // Was the middle written while it had a neighbour above?
        (unmap(0x12_0000, 0x1000), 0, &[], Some(&[MIDDLE])),
        (read_only(MIDDLE.0), 0, &[MIDDLE], None),
        (mmap(LOW.0, 0x2000, FIXED), LOW.0 as i64, &[], None),
        // Was the low one written while it had the middle one above?
        (unmap(MIDDLE.0, 0x2000), 0, &[], Some(&[LOW])),
        (mmap(MIDDLE.0, 0x3000, FIXED), MIDDLE.0 as i64, &[LOW], None),
    ])
}

#[test]
fn each_race_is_tried_both_ways_under_each_assumption_about_the_last() {
    // Only if both writes came first has the low area the owner of the upper one.
    let one = kernel(&["11c000-124000 rw-p"]);
    two_races().compare(&one, &mut Vec::new(), &mut 0).unwrap();
    let two = kernel(&["11c000-121000 rw-p", "121000-124000 rw-p"]);
    two_races().compare(&two, &mut Vec::new(), &mut 0).unwrap();
}

#[test]
fn what_a_stack_has_grown_down_to_was_written_before_or_after() {
    const LOW: Range = (0x40_0000, 0x40_4000);
    const GROWS_DOWN: u64 = FIXED | 0x100;
    let end = 0x40_c000;
    let begun = || {
        follow(&[
            (mmap(LOW.0, 0xc000, GROWS_DOWN), LOW.0 as i64, &[], None),
            (unmap(LOW.1, 0x6000), 0, &[], None),
        ])
    };
    let go_on = |mut follower: Follower| {
        let calls = [
            (unmap(0x10_0000, 0x1000), [LOW]),
            (protect(LOW.0, end - LOW.0, 7), [LOW]),
        ];
        for (call, written) in calls {
            let evidence = Evidence {
                before: &written,
                after: None,
            };
            let (verdict, _) = follower.perform(&call, 0, evidence, &mut Listed(&written));
            assert_eq!(verdict, Verdict::Agrees);
        }
        follower
    };
    let one = kernel(&["400000-40c000 rwxp"]);
    let two = kernel(&["400000-404000 rwxp", "404000-40c000 rwxp"]);
    let grown = kernel(&["400000-404000 rw-p", "404000-40c000 rw-p"]);
    for map in [&one, &two] {
        // Told of the growth.
        let mut told = begun();
        assert!(told.grow_stack(LOW.1));
        go_on(told).compare(map, &mut Vec::new(), &mut 0).unwrap();
        // Or seen in the map.
        let (mut seen, mut starts) = (begun(), Vec::new());
        seen.compare(&grown, &mut starts, &mut 0).unwrap();
        assert_eq!(starts, [LOW.1]);
        go_on(seen).compare(map, &mut Vec::new(), &mut 0).unwrap();
    }
}

#[test]
fn what_an_assumption_that_was_given_up_may_have_explained_is_open() {
    let one = kernel(&["11c000-124000 rw-p"]);
    let two = kernel(&["11c000-121000 rw-p", "121000-124000 rw-p"]);
    let alone = || {
        let mut follower = two_races();
        let others = std::mem::take(&mut follower.others);
        (follower, others)
    };
    let (mut follower, others) = alone();
    let mut fits = |map| follower.compare(map, &mut Vec::new(), &mut 0).is_ok();
    let differs = match (fits(&one), fits(&two)) {
        (true, false) => &two,
        (false, true) => &one,
        both => panic!("one of the two maps is this one's: {both:?}"),
    };
    assert!(
        alone().0.undecided(differs).is_none(),
        "nothing was given up"
    );
    follower.give_up(&others);
    assert_eq!(follower.given_up, others.len() as u64);
    assert!(follower.undecided(differs).is_some());
    assert!(follower.fork().unwrap().undecided(differs).is_some());
    for otherwise in [
        &["11c000-124000 r--p"][..],
        &["11c000-123000 rw-p"],
        &["11c000-124000 rw-p", "200000-201000 rw-p"],
        &["11b000-124000 rw-p"],
    ] {
        assert!(
            follower.undecided(&kernel(otherwise)).is_none(),
            "{otherwise:?}"
        );
    }
    // What is there instead is beyond doubt.
    follower.adopt(&unmap(0x11_c000, 0x8000), 0);
    assert!(follower.doubts.is_empty());
}

#[test]
fn nodes_that_another_thread_changes_are_one_set_or_the_other() {
    let bind = |addr, nodes| Call::Mbind {
        addr,
        len: 0x1000,
        mode: 1,
        nodes,
        flags: 0,
    };
    let none = Evidence {
        before: &[],
        after: None,
    };
    // The page below has node 0 for its own.
    let begun = || {
        follow(&[
            (mmap(0x40_0000, 0x4000, 0x32), 0x40_0000, &[], None),
            (bind(0x40_0000, 1), 0, &[], None),
        ])
    };
    let joined = kernel(&["400000-402000 rw-p", "402000-404000 rw-p"]);
    let apart = kernel(&[
        "400000-401000 rw-p",
        "401000-402000 rw-p",
        "402000-404000 rw-p",
    ]);
    for (read, other) in [(0, 1), (1, 0)] {
        for map in [&joined, &apart] {
            let mut follower = begun();
            follower.may_have_named(other);
            let call = bind(0x40_1000, read);
            let (verdict, _) = follower.perform(&call, 0, none, &mut Listed(&[]));
            assert_eq!(verdict, Verdict::Agrees);
            assert!(follower.compare(map, &mut Vec::new(), &mut 0).is_ok());
        }
    }
    // A call that names no nodes has no other.
    let mut follower = begun();
    follower.may_have_named(1);
    follower.perform(&protect(0x40_1000, 0x1000, 1), 0, none, &mut Listed(&[]));
    assert!(follower.compare(&joined, &mut Vec::new(), &mut 0).is_err());
}

#[test]
fn growth_during_a_call_comes_before_it_or_after() {
    const GROWSDOWN: u64 = 0x132;
    let beyond = (1 << 47) - 1;
    // The page below the area may have been there already when the kernel looked.
    let grown = |call: Call, returned: i64| {
        let mut follower = follow(&[(mmap(0x40_0000, 0x4000, GROWSDOWN), 0x40_0000, &[], None)]);
        follower.may_have_grown(0x3f_f000);
        let none = Evidence {
            before: &[],
            after: None,
        };
        let (verdict, _) = follower.perform(&call, returned, none, &mut Listed(&[]));
        (verdict, follower)
    };
    let below = || protect(0x3f_f000, 0x2000, 1);
    let (verdict, mut before) = grown(below(), 0);
    assert_eq!(verdict, Verdict::Agrees);
    let map = kernel(&["3ff000-401000 r--p", "401000-404000 rw-p"]);
    before.compare(&map, &mut Vec::new(), &mut 0).unwrap();
    assert_eq!(before.engine().lookup(0x3f_f000).unwrap().start, 0x3f_f000);

    let (verdict, mut after) = grown(below(), -12);
    assert_eq!(verdict, Verdict::Agrees);
    let map = kernel(&["3ff000-404000 rw-p"]);
    after.compare(&map, &mut Vec::new(), &mut 0).unwrap();

    // What growth does not explain is a mismatch.
    assert_eq!(grown(below(), -22).0, Verdict::Differs);
    assert_eq!(grown(protect(beyond, 0x2000, 1), 0).0, Verdict::Differs);
}

#[test]
fn a_failure_from_outside_refutes_no_assumption() {
    let none = Evidence {
        before: &[],
        after: None,
    };
    let mut follower = two_races();
    let lock = Call::Mlock {
        addr: 0x12_0000,
        len: 0x1000,
        flags: 0,
    };
    let (verdict, _) = follower.perform(&lock, -11, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Outside);
    assert!(!follower.others.is_empty());
}

/// By which userfaultfd an area is watched that was so before it was followed, nobody knows.
#[test]
fn another_userfaultfd_may_watch_what_was_watched_before() {
    let mut follower = follow(&[(mmap(0x10_0000, 0x2000, FIXED), 0x10_0000, &[], None)]);
    let mut engine = follower.engine().try_clone().unwrap();
    let flags = engine.lookup(0x10_0000).unwrap().vma.flags;
    engine
        .seed(SeedVma {
            start: 0x20_0000,
            end: 0x20_2000,
            prot: 3,
            shared: false,
            offset: 0,
            file: None,
            flags: Some(flags | VmFlags::UFFD_MISSING),
            name: None,
            touched: false,
        })
        .unwrap();
    follower
        .start_anew(engine, &mut crate::tally::Tally::default())
        .unwrap();
    let none = Evidence {
        before: &[],
        after: None,
    };
    let register = |follower: &mut Follower, addr, len, returned| {
        let call = Call::UffdRegister {
            context: NonZeroU32::MIN,
            asynchronous: false,
            addr,
            len,
            mode: 1,
        };
        follower.perform(&call, returned, none, &mut Listed(&[])).0
    };
    let busy = -i64::from(libc::EBUSY);
    assert_eq!(
        register(&mut follower, 0x20_1000, 0x1000, busy),
        Verdict::Outside
    );
    // Only its own may let go.
    let unregister = |follower: &mut Follower, addr, returned| {
        let call = Call::UffdUnregister {
            context: NonZeroU32::MIN,
            asynchronous: false,
            addr,
            len: 0x1000,
        };
        follower.perform(&call, returned, none, &mut Listed(&[])).0
    };
    let refused = -i64::from(libc::EINVAL);
    assert_eq!(
        unregister(&mut follower, 0x20_1000, refused),
        Verdict::Outside
    );
    assert_eq!(
        unregister(&mut follower, 0x10_0000, refused),
        Verdict::Differs
    );
    assert_eq!(
        register(&mut follower, 0x10_0000, 0x1000, busy),
        Verdict::Differs
    );
    assert_eq!(
        register(&mut follower, 0x20_0000, 0x2000, 0),
        Verdict::Agrees
    );
    assert_eq!(
        register(&mut follower, 0x20_1000, 0x1000, busy),
        Verdict::Differs
    );
}

#[test]
fn what_no_order_explains_is_a_mismatch() {
    for wrong in [
        &["11c000-11e000 rw-p", "11e000-124000 rw-p"][..],
        &[
            "11c000-11e000 rw-p",
            "11e000-121000 rw-p",
            "121000-124000 rw-p",
        ],
        &["11c000-123000 rw-p"],
    ] {
        two_races()
            .compare(&kernel(wrong), &mut Vec::new(), &mut 0)
            .unwrap_err();
    }
}

#[test]
fn neighbours_found_written_at_a_fork_are_taken_in_either_order() {
    // Three in a row, of which the middle one is written first or last.
    let calls: &[Step<'_>] = &[
        (mmap(0x12_0000, 0x6000, FIXED), 0x12_0000, &[], None),
        (protect(0x12_2000, 0x2000, 7), 0, &[], None),
    ];
    let mut follower = follow(calls);
    assert_eq!(follower.engine().area_count(), 3);
    for start in [0x12_4000, 0x12_2000, 0x12_0000] {
        follower.note_written(start, start + 0x1000);
    }
    follower.fork().unwrap();
    // The outer two share an owner, or they do not.
    let owners = |side: &Side| {
        let mut areas = side.engine.areas().map(|area| area.vma.anon());
        areas.next() == areas.next_back()
    };
    let sides: Vec<bool> = follower.sides().map(|side| owners(side)).collect();
    assert!(sides.contains(&true) && sides.contains(&false), "{sides:?}");
    assert_eq!(sides.len(), 2, "alike ones are one");
}

fn file() -> FileArg {
    let id = samara_mm::FileId {
        major: 8,
        minor: 1,
        inode: 77,
    };
    let file = samara_mm::File::new(id, "short".into());
    FileArg::File(samara_mm::Counted::try_new(file).unwrap())
}

/// Anonymous memory, a file behind it, and once more anonymous memory.
fn around_a_file() -> Follower {
    let file = Call::Mmap {
        addr: 0x40_2000,
        len: 0x2000,
        prot: 3,
        flags: 0x12,
        file: file(),
        offset: 0x2000,
    };
    follow(&[
        (mmap(0x40_0000, 0x2000, FIXED), 0x40_0000, &[], None),
        (file, 0x40_2000, &[], None),
        (mmap(0x40_4000, 0x2000, FIXED), 0x40_4000, &[], None),
    ])
}

fn owned(side: &Side) -> Vec<bool> {
    let areas = side.engine.areas();
    areas.map(|area| area.vma.anon().is_some()).collect()
}

#[test]
fn an_access_beyond_the_end_of_a_file_was_a_write_or_a_read() {
    let mut follower = around_a_file();
    follower.may_have_written(0x50_0000);
    assert!(follower.others.is_empty(), "nothing is there");
    follower.may_have_written(0x40_2000);
    let sides: Vec<Vec<bool>> = follower.sides().map(|side| owned(side)).collect();
    assert_eq!(sides, [[false; 3], [false, true, false]]);
}

#[test]
fn a_call_that_fills_in_comes_as_far_as_the_end_of_a_file() {
    let none = Evidence {
        before: &[],
        after: None,
    };
    let lock = Call::Mlock {
        addr: 0x40_0000,
        len: 0x6000,
        flags: 0,
    };
    let fill = Call::Madvise {
        addr: 0x40_0000,
        len: 0x6000,
        advice: 23,
    };
    for (call, errno) in [(lock, 12), (fill, 14)] {
        let mut follower = around_a_file();
        let (verdict, _) = follower.perform(&call, -errno, none, &mut Listed(&[]));
        assert_eq!(verdict, Verdict::Outside);
        let sides: Vec<Vec<bool>> = follower.sides().map(|side| owned(side)).collect();
        assert_eq!(sides, [[true, true, false]], "{call:?}");
        // What fails for a reason of its own needs no end of a file.
        follower.perform(&unmap(0x40_4000, 0x1000), 0, none, &mut Listed(&[]));
        let (verdict, _) = follower.perform(&call, -12, none, &mut Listed(&[]));
        assert_eq!(verdict, Verdict::Agrees);
    }
}

#[test]
fn a_call_may_come_to_the_end_of_a_file_or_to_what_cannot_be_filled_in() {
    // Behind the file, what is written to comes before what has no access.
    let none = Evidence {
        before: &[],
        after: None,
    };
    let mut follower = around_a_file();
    follower.perform(&protect(0x40_5000, 0x1000, 0), 0, none, &mut Listed(&[]));
    let lock = Call::Mlock {
        addr: 0x40_0000,
        len: 0x6000,
        flags: 0,
    };
    let (verdict, _) = follower.perform(&lock, -12, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Agrees);
    let mut sides: Vec<bool> = follower.sides().map(|side| owned(side)[2]).collect();
    sides.sort_unstable();
    assert_eq!(sides, [false, true]);
}

#[test]
fn what_the_kernel_writes_beyond_the_end_of_a_file_is_never_seen() {
    let mut follower = around_a_file();
    let inside = |follower: &Follower| {
        let area = follower
            .engine()
            .areas()
            .find(|area| area.vma.file().is_some());
        area.map(|area| (area.start, area.end)).unwrap()
    };
    let file = inside(&follower);
    follower.may_have_written(0x1_0000_0000);
    assert!(follower.doubts.is_empty(), "nothing is there");
    follower.may_have_written(file.1 - 1);
    assert!(follower.doubts.touch(file));
    assert!(!follower.doubts.touch((file.1, u64::MAX)) && !follower.doubts.touch((0, file.0)));
}

#[test]
fn what_shows_late_is_tried_again_or_undecided() {
    const LOW: Range = (0x40_0000, 0x40_1000);
    const HIGH: Range = (0x40_2000, 0x40_3000);
    let between = || mmap(LOW.1, 0x1000, FIXED);
    let begun = || {
        follow(&[
            (mmap(LOW.0, 0x1000, FIXED), LOW.0 as i64, &[], None),
            (mmap(HIGH.0, 0x1000, FIXED), HIGH.0 as i64, &[], None),
        ])
    };
    let none = Evidence {
        before: &[LOW],
        after: None,
    };
    let perform = |follower: &mut Follower, evidence| {
        let (verdict, _) =
            follower.perform(&between(), LOW.1 as i64, evidence, &mut Listed(&[LOW]));
        assert_eq!(verdict, Verdict::Agrees);
    };
    let joined = kernel(&["400000-403000 rw-p"]);
    let apart = kernel(&["400000-402000 rw-p", "402000-403000 rw-p"]);
    let elsewhere = kernel(&["400000-404000 rw-p"]);
    let mut follower = begun();
    let mut former = follower.try_clone().unwrap();
    perform(&mut follower, none);
    assert!(follower.is_joined_otherwise(&apart));
    assert!(!follower.is_joined_otherwise(&joined) && !follower.is_joined_otherwise(&elsewhere));
    // The page was about to come.
    let late = Evidence {
        before: &[LOW],
        after: Some(&[LOW, HIGH]),
    };
    perform(&mut former, late);
    former.compare(&apart, &mut Vec::new(), &mut 0).unwrap();
    // Who does not look at once can tell no more, but only of that place.
    assert_eq!(follower.undecided(&apart), None);
    follower.doubt(HIGH.0, HIGH.1);
    assert!(follower.undecided(&apart).is_some() && follower.undecided(&elsewhere).is_none());
}

/// Of private memory with this protection that is charged.
fn charged(prot: u64) -> VmFlags {
    let mut flags = VmFlags::MAY_ALL | VmFlags::ACCOUNT;
    flags.set(VmFlags::READ, prot & 1 != 0);
    flags.set(VmFlags::WRITE, prot & 2 != 0);
    flags
}

/// A process that was found with areas of these protections, four pages each; and whether they have pages.
fn found_with(areas: &[(u64, bool)]) -> Follower {
    let mut engine =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    for (start, &(prot, touched)) in (0x10_0000..).step_by(0x4000).zip(areas) {
        engine
            .seed(SeedVma {
                start,
                end: start + 0x4000,
                prot,
                shared: false,
                offset: 0,
                file: None,
                flags: Some(charged(prot)),
                name: None,
                touched,
            })
            .unwrap();
    }
    let mut follower = Follower::found(engine, false);
    follower.doubt(0x10_0000, 0x11_0000);
    follower
}

fn found(prots: &[u64]) -> Follower {
    let areas: Vec<_> = prots.iter().map(|prot| (*prot, true)).collect();
    found_with(&areas)
}

/// Performs a call, and compares.
fn shows(follower: &mut Follower, call: &Call, lines: &[&str]) -> bool {
    let returned = match *call {
        Call::Mmap { addr, .. } => addr as i64,
        _ => 0,
    };
    let none = Evidence {
        before: &[],
        after: None,
    };
    let (verdict, _) = follower.perform(call, returned, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Agrees);
    let compared = follower.compare(&kernel(lines), &mut Vec::new(), &mut 0);
    follower.engine().check().unwrap();
    compared.is_ok()
}

#[test]
fn owners_of_a_process_that_was_found_are_one_where_its_map_says_so() {
    let heal = |addr| protect(addr, 0x4000, 3);
    let mut follower = found(&[3, 1, 3, 1]);
    assert!(shows(
        &mut follower,
        &heal(0x10_4000),
        &["100000-10c000 rw-p", "10c000-110000 r--p"],
    ));
    // Of the last one, too, when its turn comes.
    let all = ["100000-110000 rw-p"];
    assert!(shows(&mut follower, &heal(0x10_c000), &all));
    // It is one area now, cut and joined as any.
    let cut = [
        "100000-104000 rw-p",
        "104000-105000 r--p",
        "105000-110000 rw-p",
    ];
    assert!(shows(&mut follower, &read_only(0x10_4000), &cut));
    assert!(shows(&mut follower, &heal(0x10_4000), &all));
    // What was followed from its start is known.
    let engine = found(&[3, 1]).into_engine();
    let mut known = Follower::new(engine, false);
    assert!(!shows(
        &mut known,
        &heal(0x10_4000),
        &["100000-108000 rw-p"]
    ));
}

#[test]
fn owners_that_have_kept_areas_apart_are_two_for_ever() {
    let heal = protect(0x10_4000, 0x4000, 3);
    let apart = ["100000-104000 rw-p", "104000-108000 rw-p"];
    let mut follower = found(&[3, 1]);
    assert!(shows(&mut follower, &heal, &apart));
    let both = |prot| protect(0x10_0000, 0x8000, prot);
    assert!(!shows(&mut follower, &both(1), &["100000-108000 r--p"]));
    let apart = ["100000-104000 r--p", "104000-108000 r--p"];
    assert!(shows(&mut follower, &both(1), &apart));
    // Nothing else than owners explains what is joined elsewhere.
    assert!(!shows(&mut follower, &both(3), &["100000-109000 rw-p"]));
}

#[test]
fn what_new_memory_does_not_join_is_a_parents() {
    let joined = ["100000-105000 rw-p"];
    let apart = ["100000-104000 rw-p", "104000-105000 rw-p"];
    let beside = mmap(0x10_4000, 0x1000, FIXED);
    let mut follower = found(&[3]);
    assert!(shows(&mut follower, &beside, &apart));
    // It stays so.
    assert!(shows(&mut follower, &unmap(0x10_4000, 0x1000), &apart[..1]));
    assert!(!shows(&mut follower, &beside, &joined));
    // And what has joined once is none of a parent's.
    let mut follower = found(&[3]);
    assert!(shows(&mut follower, &beside, &joined));
    assert!(shows(&mut follower, &unmap(0x10_4000, 0x1000), &apart[..1]));
    assert!(!shows(&mut follower, &beside, &apart));
}

#[test]
fn what_joins_nothing_though_no_page_shows_has_an_owner() {
    let both = |prot| protect(0x10_0000, 0x8000, prot);
    let apart =
        |perms: &str| ["100000-104000", "104000-108000"].map(|range| format!("{range} {perms}"));
    let [read_only, writable] = ["r--p", "rw-p"].map(apart);
    let [read_only, writable] =
        [&read_only, &writable].map(|lines| lines.each_ref().map(|line| &**line));
    for touched in [[true, false], [false, true], [false, false]] {
        let mut follower = found_with(&[(3, touched[0]), (1, touched[1])]);
        assert!(shows(&mut follower, &both(1), &read_only), "{touched:?}");
        assert!(shows(&mut follower, &both(3), &writable));
        assert!(shows(&mut follower, &both(1), &read_only));
        assert!(!shows(&mut follower, &both(3), &["100000-108000 rw-p"]));
    }
    // Of new memory it is known that nobody has: what lies beside it is a parent's, unless it has joined new memory before.
    let new = mmap(0x10_4000, 0x4000, FIXED);
    for joins in [false, true] {
        let mut follower = found_with(&[(3, true)]);
        if joins {
            assert!(shows(&mut follower, &new, &["100000-108000 rw-p"]));
            assert!(shows(
                &mut follower,
                &unmap(0x10_4000, 0x4000),
                &writable[..1]
            ));
        }
        let cut = protect(0x10_0000, 0x4000, 1);
        assert!(shows(&mut follower, &cut, &read_only[..1]));
        let beside = [read_only[0], writable[1]];
        assert!(shows(&mut follower, &new, &beside));
        assert_eq!(shows(&mut follower, &both(3), &writable), !joins);
    }
}

/// What another thread may have made of a set of nodes, of a name, or of ranges, and only where the call has named memory.
#[test]
fn what_arguments_may_have_said_is_undecided() {
    let mut follower = follow(&[(mmap(0x40_0000, 0x4000, FIXED), 0x40_0000, &[], None)]);
    let cut = kernel(&["400000-401000 rw-p", "401000-404000 rw-p"]);
    assert_eq!(follower.undecided(&cut), None);
    follower.doubt_for(0x40_1000, 0x40_2000, Unknown::Argument);
    assert_eq!(follower.undecided(&cut), Some(Unknown::Argument));
    let mut named = Map::default();
    for line in [
        &b"00400000-00401000 rw-p 00000000 00:00 0 "[..],
        b"00401000-00402000 rw-p 00000000 00:00 0 [anon:a]",
        b"00402000-00404000 rw-p 00000000 00:00 0 ",
    ] {
        named.push_line(line).unwrap();
    }
    assert_eq!(follower.undecided(&named), Some(Unknown::Argument));
    for otherwise in ["400000-404000 r--p", "400000-405000 rw-p"] {
        assert_eq!(follower.undecided(&kernel(&[otherwise])), None);
    }
    // The answer of that very call, and of none other; answers that agree are what they are.
    let call = read_only(0x40_0000);
    follower.next_is_unknown(Unknown::Argument);
    let judged = |follower: &mut Follower, verdict| follower.judge(&call, -22, verdict);
    assert_eq!(
        judged(&mut follower, Verdict::Differs),
        Verdict::Undecided(Unknown::Argument)
    );
    assert_eq!(judged(&mut follower, Verdict::Differs), Verdict::Differs);
    follower.next_is_unknown(Unknown::Argument);
    assert_eq!(judged(&mut follower, Verdict::Agrees), Verdict::Agrees);
    assert_eq!(judged(&mut follower, Verdict::Differs), Verdict::Differs);
}

/// Of an area that was mapped before, nobody knows the open file: whether it joins what is mapped of the file now shows only later.
#[test]
fn areas_of_unknown_open_files_that_join_are_undecided() {
    let id = samara_mm::FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let areas = |description| {
        let file = samara_mm::File {
            description,
            ..samara_mm::File::new(id, "/x".into())
        };
        let other = samara_mm::File {
            description: 5,
            ..file.clone()
        };
        let mut engine =
            AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
        for (page, file) in [(0, file), (1, other)] {
            let area = SeedVma {
                start: 0x40_0000 + page * 0x1000,
                end: 0x40_1000 + page * 0x1000,
                prot: 1,
                shared: false,
                offset: page * 0x1000,
                file: Some(crate::counted::counted(file)),
                flags: None,
                name: None,
                touched: false,
            };
            engine.seed(area).unwrap();
        }
        Follower::found(engine, false)
    };
    let mut joined = Map::default();
    let line = b"00400000-00402000 r--p 00000000 08:01 7 /x";
    joined.push_line(line).unwrap();
    assert_eq!(areas(0).undecided(&joined), Some(Unknown::Opened));
    assert_eq!(areas(4).undecided(&joined), None);
}

/// The neighbours of what a call has named belong to it: they may have joined.
#[test]
fn parts_of_maps_reach_as_far_as_areas_that_touch_them() {
    let mut follower = follow(&[
        (mmap(0x40_0000, 0x4000, FIXED), 0x40_0000, &[], None),
        (read_only(0x40_1000), 0, &[], None),
        (mmap(0x50_0000, 0x1000, FIXED), 0x50_0000, &[], None),
    ]);
    let call = (0x40_1000, 0x40_2000);
    let all = (0x40_0000, 0x40_4000);
    assert_eq!(follower.window(call, 9), (all, 3));
    assert_eq!(follower.window(call, 1), (all, 2));
    assert_eq!(follower.window((0x40_8000, 0x40_9000), 9).1, 0);
    let alone = (0x50_0000, 0x50_1000);
    assert_eq!(follower.window(alone, 9), (alone, 1));
    let mut agrees = |lines: &[&str]| follower.agrees_within(all, &kernel(lines), &mut 0);
    let (low, middle, high) = (
        "400000-401000 rw-p",
        "401000-402000 r--p",
        "402000-404000 rw-p",
    );
    assert!(agrees(&[low, middle, high]));
    for otherwise in [
        &[low, middle][..],
        &["400000-404000 rw-p"],
        &[low, "401000-404000 r--p"],
        &["3ff000-401000 rw-p", middle, high],
        &[low, middle, "402000-405000 rw-p"],
        &[low, middle, "402000-403000 rw-p", "403000-404000 r--p"],
    ] {
        assert!(!agrees(otherwise), "{otherwise:?}");
    }
}
