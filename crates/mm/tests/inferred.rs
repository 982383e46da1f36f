//! Owners that were made up for areas that were found with private pages: one where the process's own map shows one area.

#![allow(clippy::unwrap_used, reason = "tests")]

use samara_mm::{AddressSpace, AnonVma, Call, Config, FileArg, Layout, Limits, SeedVma, VmFlags};

const PAGE: u64 = 0x1000;
const BASE: u64 = 0x10_0000;

fn page(number: u64) -> u64 {
    BASE + number * PAGE
}

/// An area of anonymous memory: where it begins and ends in pages, its protection, and whether it has private pages.
type Found = (u64, u64, u64, bool);

/// Of private memory with this protection that is charged.
fn flags(prot: u64) -> VmFlags {
    let mut flags = VmFlags::MAY_ALL | VmFlags::ACCOUNT;
    flags.set(VmFlags::READ, prot & 1 != 0);
    flags.set(VmFlags::WRITE, prot & 2 != 0);
    flags
}

fn found(areas: &[Found]) -> AddressSpace {
    let mut space =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    for &(start, end, prot, touched) in areas {
        space
            .seed(SeedVma {
                start: page(start),
                end: page(end),
                prot,
                shared: false,
                offset: 0,
                file: None,
                flags: Some(flags(prot)),
                name: None,
                touched,
            })
            .unwrap();
    }
    space
}

fn protect(space: &mut AddressSpace, start: u64, end: u64, prot: u64) {
    let call = Call::Mprotect {
        addr: page(start),
        len: (end - start) * PAGE,
        prot,
        pkey: -1,
    };
    space.perform(&call).unwrap();
}

/// Maps new memory.
fn map(space: &mut AddressSpace, start: u64, end: u64, prot: u64) {
    let call = Call::Mmap {
        addr: page(start),
        len: (end - start) * PAGE,
        prot,
        flags: 0x32,
        file: FileArg::None,
        offset: 0,
    };
    space.perform(&call).unwrap();
}

/// Returns the ends of all VMAs, in pages.
fn ends(space: &AddressSpace) -> Vec<u64> {
    let areas = space.areas();
    areas.map(|area| (area.end - BASE) / PAGE).collect()
}

fn owner(space: &AddressSpace, at: u64) -> Option<AnonVma> {
    space.lookup(page(at)).unwrap().vma.anon()
}

fn one_area(space: &mut AddressSpace, start: u64, end: u64) -> bool {
    let told = space.note_one_area(page(start), page(end)).unwrap();
    space.check().unwrap();
    told
}

#[test]
fn owners_that_kept_areas_apart_are_one_everywhere() {
    let mut space = found(&[
        (0, 2, 3, true),
        (2, 4, 1, true),
        (4, 6, 3, true),
        (6, 8, 1, true),
    ]);
    protect(&mut space, 2, 4, 3);
    assert_eq!(ends(&space), [2, 4, 6, 8]);
    let last = owner(&space, 6);
    assert!(one_area(&mut space, 0, 6));
    assert_eq!(ends(&space), [6, 8]);
    // Of the fourth nothing was told.
    assert_eq!(owner(&space, 6), last);
    protect(&mut space, 6, 8, 3);
    assert_eq!(ends(&space), [6, 8]);
    // What is known of one part holds for all that have its owner.
    protect(&mut space, 3, 4, 1);
    protect(&mut space, 3, 4, 3);
    assert_eq!(ends(&space), [6, 8]);
    assert!(one_area(&mut space, 0, 8));
    assert_eq!(ends(&space), [8]);
    assert!(owner(&space, 0).is_some_and(AnonVma::is_inferred));
}

#[test]
fn parts_that_lie_elsewhere_join_later() {
    let mut space = found(&[(0, 2, 3, true), (2, 4, 3, true), (4, 6, 1, true)]);
    // The lower part of what is told reaches no further than the areas that are named.
    assert!(one_area(&mut space, 0, 4));
    protect(&mut space, 1, 2, 1);
    protect(&mut space, 3, 4, 1);
    assert_eq!(ends(&space), [1, 2, 3, 4, 6]);
    protect(&mut space, 2, 3, 1);
    assert_eq!(ends(&space), [1, 4, 6]);
}

#[test]
fn what_assumed_owners_do_not_explain_stays() {
    let all = |space: &AddressSpace| -> Vec<_> {
        let areas = space.areas();
        areas
            .map(|area| (area.start, area.end, area.vma.flags, area.vma.anon()))
            .collect()
    };
    // Other permissions, a hole, less or more than there is, and one area.
    let apart: [(&[Found], u64, u64); 6] = [
        (&[(0, 2, 3, true), (2, 4, 1, true)], 0, 4),
        (&[(0, 2, 3, true), (3, 4, 3, true)], 0, 4),
        (&[(0, 2, 3, true), (2, 4, 3, true)], 0, 3),
        (&[(0, 2, 3, true), (2, 4, 3, true)], 1, 4),
        (&[(0, 2, 3, true), (2, 4, 3, true)], 0, 5),
        (&[(0, 4, 3, true)], 0, 4),
    ];
    for (areas, start, end) in apart {
        let mut space = found(areas);
        let before = all(&space);
        assert!(!one_area(&mut space, start, end), "{areas:?}");
        assert_eq!(all(&space), before);
    }
}

#[test]
fn owners_that_are_known_are_two() {
    let mut space = found(&[(0, 2, 3, false), (3, 5, 3, false)]);
    // They were written apart.
    for at in [0, 3] {
        space.fault(page(at), true).unwrap();
        assert!(!owner(&space, at).unwrap().is_inferred());
    }
    map(&mut space, 2, 3, 3);
    assert_eq!(ends(&space), [3, 5]);
    assert!(!one_area(&mut space, 0, 5));
    assert_eq!(ends(&space), [3, 5]);
}

#[test]
fn a_childs_owners_are_its_own() {
    let mut parent = found(&[(0, 2, 3, true), (2, 4, 3, true)]);
    let mut child = parent.fork().unwrap();
    assert!(!owner(&child, 0).unwrap().is_inferred());
    assert!(!one_area(&mut child, 0, 4));
    assert!(one_area(&mut parent, 0, 4));
    let child = parent.fork().unwrap();
    assert_eq!(ends(&child), [4]);
}

#[test]
fn new_memory_apart_from_an_owner_shows_that_it_is_a_parents() {
    let mut space = found(&[(0, 2, 3, true)]);
    let own = |space: &mut AddressSpace, start, end| {
        let told = space.note_own_area(page(start), page(end)).unwrap();
        space.check().unwrap();
        told
    };
    map(&mut space, 6, 8, 3);
    // What has joined nothing, or nothing that was found, or is not there.
    assert!(!own(&mut space, 6, 8) && !own(&mut space, 7, 8) && !own(&mut space, 9, 10));
    let mut other = found(&[(0, 2, 3, true), (4, 6, 1, true)]);
    map(&mut other, 2, 3, 3);
    assert_eq!(ends(&other), [3, 6]);
    assert!(own(&mut other, 2, 3));
    assert_eq!(ends(&other), [2, 3, 6]);
    assert!(owner(&other, 0).is_some_and(AnonVma::is_inherited));
    assert!(owner(&other, 2).is_none());
    assert!(!owner(&other, 4).is_some_and(AnonVma::is_inherited));
    assert!(!own(&mut other, 2, 3));
}

#[test]
fn what_no_page_shows_is_owned_where_it_joins_nothing() {
    let mut space = found(&[(0, 2, 3, true), (2, 4, 1, false)]);
    protect(&mut space, 0, 4, 3);
    assert_eq!(ends(&space), [4]);
    assert!(space.note_owned_area(page(2), page(4), true).unwrap());
    space.check().unwrap();
    assert_eq!(ends(&space), [2, 4]);
    let owners = [0, 2].map(|at| owner(&space, at).unwrap());
    assert!(owners[0] != owners[1] && owners[1].is_inferred());
    assert!(!space.note_owned_area(page(2), page(4), true).unwrap());
    assert!(!space.note_owned_area(page(3), page(5), true).unwrap());
}
