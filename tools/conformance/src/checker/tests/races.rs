//! Page faults and other threads concurrent with a call: each order is followed until the map
//! refutes it.

use super::*;

/// Two writes in two calls, each of which may have come before or after: what the second lends depends on what the first took.
fn two_races() -> Checker {
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
    let go_on = |mut checker: Checker| {
        let calls = [
            (unmap(0x10_0000, 0x1000), [LOW]),
            (protect(LOW.0, end - LOW.0, 7), [LOW]),
        ];
        for (call, written) in calls {
            let evidence = Evidence {
                before: &written,
                after: None,
            };
            let (verdict, _) = checker.perform(&call, 0, evidence, &mut Listed(&written));
            assert_eq!(verdict, Verdict::Agrees);
        }
        checker
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
        let mut checker = two_races();
        let others = std::mem::take(&mut checker.alternatives);
        (checker, others)
    };
    let (mut checker, others) = alone();
    let mut fits = |map| checker.compare(map, &mut Vec::new(), &mut 0).is_ok();
    let differs = match (fits(&one), fits(&two)) {
        (true, false) => &two,
        (false, true) => &one,
        both => panic!("one of the two maps is this one's: {both:?}"),
    };
    assert!(
        alone().0.undecided(differs).is_none(),
        "nothing was given up"
    );
    checker.give_up(&others);
    assert_eq!(checker.given_up, others.len() as u64);
    assert!(checker.undecided(differs).is_some());
    assert!(checker.fork().unwrap().undecided(differs).is_some());
    for otherwise in [
        &["11c000-124000 r--p"][..],
        &["11c000-123000 rw-p"],
        &["11c000-124000 rw-p", "200000-201000 rw-p"],
        &["11b000-124000 rw-p"],
    ] {
        assert!(
            checker.undecided(&kernel(otherwise)).is_none(),
            "{otherwise:?}"
        );
    }
    // What is there instead is beyond doubt.
    checker.adopt(&unmap(0x11_c000, 0x8000), 0);
    assert!(checker.doubts.is_empty());
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
            let mut checker = begun();
            checker.may_have_named(other);
            let call = bind(0x40_1000, read);
            let (verdict, _) = checker.perform(&call, 0, none, &mut Listed(&[]));
            assert_eq!(verdict, Verdict::Agrees);
            assert!(checker.compare(map, &mut Vec::new(), &mut 0).is_ok());
        }
    }
    // A call that names no nodes has no other.
    let mut checker = begun();
    checker.may_have_named(1);
    checker.perform(&protect(0x40_1000, 0x1000, 1), 0, none, &mut Listed(&[]));
    assert!(checker.compare(&joined, &mut Vec::new(), &mut 0).is_err());
}

#[test]
fn growth_during_a_call_comes_before_it_or_after() {
    const GROWSDOWN: u64 = 0x132;
    let beyond = (1 << 47) - 1;
    // The page below the area may have been there already when the kernel looked.
    let grown = |call: Call, returned: i64| {
        let mut checker = follow(&[(mmap(0x40_0000, 0x4000, GROWSDOWN), 0x40_0000, &[], None)]);
        checker.may_have_grown(0x3f_f000);
        let none = Evidence {
            before: &[],
            after: None,
        };
        let (verdict, _) = checker.perform(&call, returned, none, &mut Listed(&[]));
        (verdict, checker)
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
    let mut checker = two_races();
    let lock = Call::Mlock {
        addr: 0x12_0000,
        len: 0x1000,
        flags: 0,
    };
    let (verdict, _) = checker.perform(&lock, -11, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Outside);
    assert!(!checker.alternatives.is_empty());
}

/// It is unknown which userfaultfd watches an area that was watched before the trace.
#[test]
fn another_userfaultfd_may_watch_what_was_watched_before() {
    let mut checker = follow(&[(mmap(0x10_0000, 0x2000, FIXED), 0x10_0000, &[], None)]);
    let mut engine = checker.engine().try_clone().unwrap();
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
    checker
        .start_anew(engine, &mut crate::tally::Tally::default())
        .unwrap();
    let none = Evidence {
        before: &[],
        after: None,
    };
    let register = |checker: &mut Checker, addr, len, returned| {
        let call = Call::UffdRegister {
            context: NonZeroU32::MIN,
            asynchronous: false,
            addr,
            len,
            mode: 1,
        };
        checker.perform(&call, returned, none, &mut Listed(&[])).0
    };
    let busy = -i64::from(libc::EBUSY);
    assert_eq!(
        register(&mut checker, 0x20_1000, 0x1000, busy),
        Verdict::Outside
    );
    // Only its own may let go.
    let unregister = |checker: &mut Checker, addr, returned| {
        let call = Call::UffdUnregister {
            context: NonZeroU32::MIN,
            asynchronous: false,
            addr,
            len: 0x1000,
        };
        checker.perform(&call, returned, none, &mut Listed(&[])).0
    };
    let refused = -i64::from(libc::EINVAL);
    assert_eq!(
        unregister(&mut checker, 0x20_1000, refused),
        Verdict::Outside
    );
    assert_eq!(
        unregister(&mut checker, 0x10_0000, refused),
        Verdict::Differs
    );
    assert_eq!(
        register(&mut checker, 0x10_0000, 0x1000, busy),
        Verdict::Differs
    );
    assert_eq!(
        register(&mut checker, 0x20_0000, 0x2000, 0),
        Verdict::Agrees
    );
    assert_eq!(
        register(&mut checker, 0x20_1000, 0x1000, busy),
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
    let mut checker = follow(calls);
    assert_eq!(checker.engine().area_count(), 3);
    for start in [0x12_4000, 0x12_2000, 0x12_0000] {
        checker.note_written(start, start + 0x1000);
    }
    checker.fork().unwrap();
    // The outer two share an owner, or they do not.
    let owners = |replica: &Replica| {
        let mut areas = replica.engine.areas().map(|area| area.vma.anon());
        areas.next() == areas.next_back()
    };
    let replicas: Vec<bool> = checker.replicas().map(|replica| owners(replica)).collect();
    assert!(
        replicas.contains(&true) && replicas.contains(&false),
        "{replicas:?}"
    );
    assert_eq!(replicas.len(), 2, "alike ones are one");
}
