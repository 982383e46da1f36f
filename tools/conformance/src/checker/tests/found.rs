//! Processes that were found running: what their maps tell of owners.

use super::*;

/// Of private memory with this protection that is charged.
fn charged(prot: u64) -> VmFlags {
    let mut flags = VmFlags::MAY_ALL | VmFlags::ACCOUNT;
    flags.set(VmFlags::READ, prot & 1 != 0);
    flags.set(VmFlags::WRITE, prot & 2 != 0);
    flags
}

/// A process that was found with areas of these protections, four pages each; and whether they have pages.
fn found_with(areas: &[(u64, bool)]) -> Checker {
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
    let mut checker = Checker::found(engine, false);
    checker.doubt(0x10_0000, 0x11_0000);
    checker
}

fn found(prots: &[u64]) -> Checker {
    let areas: Vec<_> = prots.iter().map(|prot| (*prot, true)).collect();
    found_with(&areas)
}

/// Performs a call, and compares.
fn shows(checker: &mut Checker, call: &Call, lines: &[&str]) -> bool {
    let returned = match *call {
        Call::Mmap { addr, .. } => addr as i64,
        _ => 0,
    };
    let none = Evidence {
        before: &[],
        after: None,
    };
    let (verdict, _) = checker.perform(call, returned, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Agrees);
    let compared = checker.compare(&kernel(lines), &mut Vec::new(), &mut 0);
    checker.engine().check().unwrap();
    compared.is_ok()
}

#[test]
fn owners_of_a_process_that_was_found_are_one_where_its_map_says_so() {
    let heal = |addr| protect(addr, 0x4000, 3);
    let mut checker = found(&[3, 1, 3, 1]);
    assert!(shows(
        &mut checker,
        &heal(0x10_4000),
        &["100000-10c000 rw-p", "10c000-110000 r--p"],
    ));
    // Of the last one, too, when its turn comes.
    let all = ["100000-110000 rw-p"];
    assert!(shows(&mut checker, &heal(0x10_c000), &all));
    // It is one area now, cut and joined as any.
    let cut = [
        "100000-104000 rw-p",
        "104000-105000 r--p",
        "105000-110000 rw-p",
    ];
    assert!(shows(&mut checker, &read_only(0x10_4000), &cut));
    assert!(shows(&mut checker, &heal(0x10_4000), &all));
    // What was followed from its start is known.
    let engine = found(&[3, 1]).into_engine();
    let mut known = Checker::new(engine, false);
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
    let mut checker = found(&[3, 1]);
    assert!(shows(&mut checker, &heal, &apart));
    let both = |prot| protect(0x10_0000, 0x8000, prot);
    assert!(!shows(&mut checker, &both(1), &["100000-108000 r--p"]));
    let apart = ["100000-104000 r--p", "104000-108000 r--p"];
    assert!(shows(&mut checker, &both(1), &apart));
    // Nothing else than owners explains what is joined elsewhere.
    assert!(!shows(&mut checker, &both(3), &["100000-109000 rw-p"]));
}

#[test]
fn what_new_memory_does_not_join_is_a_parents() {
    let joined = ["100000-105000 rw-p"];
    let apart = ["100000-104000 rw-p", "104000-105000 rw-p"];
    let beside = mmap(0x10_4000, 0x1000, FIXED);
    let mut checker = found(&[3]);
    assert!(shows(&mut checker, &beside, &apart));
    // It stays so.
    assert!(shows(&mut checker, &unmap(0x10_4000, 0x1000), &apart[..1]));
    assert!(!shows(&mut checker, &beside, &joined));
    // And what has joined once is none of a parent's.
    let mut checker = found(&[3]);
    assert!(shows(&mut checker, &beside, &joined));
    assert!(shows(&mut checker, &unmap(0x10_4000, 0x1000), &apart[..1]));
    assert!(!shows(&mut checker, &beside, &apart));
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
        let mut checker = found_with(&[(3, touched[0]), (1, touched[1])]);
        assert!(shows(&mut checker, &both(1), &read_only), "{touched:?}");
        assert!(shows(&mut checker, &both(3), &writable));
        assert!(shows(&mut checker, &both(1), &read_only));
        assert!(!shows(&mut checker, &both(3), &["100000-108000 rw-p"]));
    }
    // New memory is known to have no owner. So its neighbour is a parent's, unless it has merged
    // with new memory before.
    let new = mmap(0x10_4000, 0x4000, FIXED);
    for joins in [false, true] {
        let mut checker = found_with(&[(3, true)]);
        if joins {
            assert!(shows(&mut checker, &new, &["100000-108000 rw-p"]));
            assert!(shows(
                &mut checker,
                &unmap(0x10_4000, 0x4000),
                &writable[..1]
            ));
        }
        let cut = protect(0x10_0000, 0x4000, 1);
        assert!(shows(&mut checker, &cut, &read_only[..1]));
        let beside = [read_only[0], writable[1]];
        assert!(shows(&mut checker, &new, &beside));
        assert_eq!(shows(&mut checker, &both(3), &writable), !joins);
    }
}
