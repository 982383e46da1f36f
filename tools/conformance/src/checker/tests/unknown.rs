//! Undecided differences, and the ranges in which they are searched.

use super::*;

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
    let perform = |checker: &mut Checker, evidence| {
        let (verdict, _) = checker.perform(&between(), LOW.1 as i64, evidence, &mut Listed(&[LOW]));
        assert_eq!(verdict, Verdict::Agrees);
    };
    let joined = kernel(&["400000-403000 rw-p"]);
    let apart = kernel(&["400000-402000 rw-p", "402000-403000 rw-p"]);
    let elsewhere = kernel(&["400000-404000 rw-p"]);
    let mut checker = begun();
    let mut former = checker.try_clone().unwrap();
    perform(&mut checker, none);
    assert!(checker.is_joined_otherwise(&apart));
    assert!(!checker.is_joined_otherwise(&joined) && !checker.is_joined_otherwise(&elsewhere));
    // The page was about to come.
    let late = Evidence {
        before: &[LOW],
        after: Some(&[LOW, HIGH]),
    };
    perform(&mut former, late);
    former.compare(&apart, &mut Vec::new(), &mut 0).unwrap();
    // Who does not look at once can tell no more, but only of that place.
    assert_eq!(checker.undecided(&apart), None);
    checker.doubt(HIGH.0, HIGH.1);
    assert!(checker.undecided(&apart).is_some() && checker.undecided(&elsewhere).is_none());
}

/// Another thread may have changed a set of nodes, a name, or ranges. This counts only if the call
/// has named memory.
#[test]
fn what_arguments_may_have_said_is_undecided() {
    let mut checker = follow(&[(mmap(0x40_0000, 0x4000, FIXED), 0x40_0000, &[], None)]);
    let cut = kernel(&["400000-401000 rw-p", "401000-404000 rw-p"]);
    assert_eq!(checker.undecided(&cut), None);
    checker.doubt_for(0x40_1000, 0x40_2000, Unknown::Argument);
    assert_eq!(checker.undecided(&cut), Some(Unknown::Argument));
    let mut named = Map::default();
    for line in [
        &b"00400000-00401000 rw-p 00000000 00:00 0 "[..],
        b"00401000-00402000 rw-p 00000000 00:00 0 [anon:a]",
        b"00402000-00404000 rw-p 00000000 00:00 0 ",
    ] {
        named.push_line(line).unwrap();
    }
    assert_eq!(checker.undecided(&named), Some(Unknown::Argument));
    for otherwise in ["400000-404000 r--p", "400000-405000 rw-p"] {
        assert_eq!(checker.undecided(&kernel(&[otherwise])), None);
    }
    // The answer of that very call, and of none other; answers that agree are what they are.
    let call = read_only(0x40_0000);
    checker.next_is_unknown(Unknown::Argument);
    let judged = |checker: &mut Checker, verdict| checker.judge(&call, -22, verdict);
    assert_eq!(
        judged(&mut checker, Verdict::Differs),
        Verdict::Undecided(Unknown::Argument)
    );
    assert_eq!(judged(&mut checker, Verdict::Differs), Verdict::Differs);
    checker.next_is_unknown(Unknown::Argument);
    assert_eq!(judged(&mut checker, Verdict::Agrees), Verdict::Agrees);
    assert_eq!(judged(&mut checker, Verdict::Differs), Verdict::Differs);
}

/// The open file of an area from before the trace is unknown: only later does it show if the area
/// merges with new mappings of the file.
#[test]
fn areas_of_unknown_open_files_that_join_are_undecided() {
    use std::num::NonZeroU64;

    let id = samara_mm::FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let areas = |description: u64| {
        let file = samara_mm::File {
            description: NonZeroU64::new(description),
            ..samara_mm::File::new(id, "/x".into())
        };
        let other = samara_mm::File {
            description: NonZeroU64::new(5),
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
        Checker::found(engine, false)
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
    let mut checker = follow(&[
        (mmap(0x40_0000, 0x4000, FIXED), 0x40_0000, &[], None),
        (read_only(0x40_1000), 0, &[], None),
        (mmap(0x50_0000, 0x1000, FIXED), 0x50_0000, &[], None),
    ]);
    let call = (0x40_1000, 0x40_2000);
    let all = (0x40_0000, 0x40_4000);
    assert_eq!(checker.window(call, 9), (all, 3));
    assert_eq!(checker.window(call, 1), (all, 2));
    assert_eq!(checker.window((0x40_8000, 0x40_9000), 9).1, 0);
    let alone = (0x50_0000, 0x50_1000);
    assert_eq!(checker.window(alone, 9), (alone, 1));
    let mut agrees = |lines: &[&str]| checker.agrees_within(all, &kernel(lines), &mut 0);
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
