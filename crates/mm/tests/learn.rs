//! Which pages a call depends on: whatever it joins, cuts, moves or removes is asked for beforehand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use samara_mm::{
    AddressSpace, Call, Config, Counted, DriverFlags, File, FileArg, FileId, FileKind, Layout,
    Limits, Object, ShmSegment,
};

const PRIVATE_FIXED: u64 = 0x32;

fn space() -> AddressSpace {
    AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap()
}

fn perform(space: &mut AddressSpace, call: &Call) -> u64 {
    space
        .perform(call)
        .unwrap_or_else(|errno| panic!("{call:?}: {errno}"))
}

fn map(space: &mut AddressSpace, addr: u64, len: u64) {
    let call = Call::Mmap {
        addr,
        len,
        prot: 3,
        flags: PRIVATE_FIXED,
        file: FileArg::None,
        offset: 0,
    };
    assert_eq!(perform(space, &call), addr);
}

/// All that may be asked for: as where everything was written.
fn asked(space: &AddressSpace, call: &Call) -> Vec<(u64, u64)> {
    let mut list = Vec::new();
    space.facts_needed(call, &mut |start, end| list.push((start, end)));
    list.sort_unstable();
    list.dedup();
    assert_eq!(list, asked_where(space, call, &|_| true));
    list
}

/// Returns the questions of the engine if VMAs were written as their start says.
fn asked_where(
    space: &AddressSpace,
    call: &Call,
    written: &dyn Fn(u64) -> bool,
) -> Vec<(u64, u64)> {
    let mut list = Vec::new();
    space.facts_needed_where(call, &mut |start, end| {
        list.push((start, end));
        written(start)
    });
    list.sort_unstable();
    list.dedup();
    list
}

/// Owners come down rows of areas that were written. One that was not has none: what is beyond it is of no concern.
#[test]
fn rows_end_at_what_was_not_written() {
    let mut space = space();
    map(&mut space, 0x10_0000, 0x1_0000);
    let protect = |addr| Call::Mprotect {
        addr,
        len: 0x1000,
        prot: 7,
        pkey: -1,
    };
    for odd in 0..8 {
        perform(&mut space, &protect(0x10_1000 + odd * 0x2000));
    }
    let call = protect(0x10_8000);
    let pages = |from: u64, to: u64| -> Vec<(u64, u64)> {
        (from..to)
            .map(|page| (0x10_0000 + page * 0x1000, 0x10_1000 + page * 0x1000))
            .collect()
    };
    let written = |from: u64, to: u64| {
        move |start: u64| (0x10_0000 + from * 0x1000..0x10_0000 + to * 0x1000).contains(&start)
    };
    assert_eq!(asked_where(&space, &call, &|_| false), pages(7, 10));
    assert_eq!(asked_where(&space, &call, &|_| true), pages(0, 16));
    // Written, but beyond what was not.
    assert_eq!(asked_where(&space, &call, &written(11, 16)), pages(7, 10));
    assert_eq!(asked_where(&space, &call, &written(0, 7)), pages(7, 10));
    assert_eq!(asked_where(&space, &call, &written(9, 12)), pages(7, 13));
    assert_eq!(asked_where(&space, &call, &written(5, 8)), pages(4, 10));
}

/// An attachment may replace a part of an area, whose other parts stay written.
#[test]
fn shmat_asks_for_what_it_replaces() {
    let mut space = space();
    map(&mut space, 0x10_0000, 0xc000);
    let file = Counted::try_new(File {
        id: FileId {
            major: 0,
            minor: 1,
            inode: 7,
        },
        name: "/SYSV00000000 (deleted)".into(),
        readable: true,
        writable: true,
        noexec: false,
        kind: FileKind::Shmem,
        seals: 0,
        driver: DriverFlags::default(),
        object: Object::none(),
        description: std::num::NonZeroU64::new(1),
    })
    .unwrap();
    let segment = Counted::try_new(ShmSegment { file, size: 0x2000 }).unwrap();
    let mut call = Call::Shmat {
        segment: Some(segment),
        addr: 0x10_5000,
        flags: 0o40000,
    };
    assert_eq!(asked(&space, &call), [(0x10_0000, 0x10_c000)]);
    // Where the place is chosen nothing is replaced.
    if let Call::Shmat { addr, .. } = &mut call {
        *addr = 0;
    }
    assert_eq!(asked(&space, &call), []);
}

/// The end of the heap may be several areas, of which some are given back whole and one is cut.
#[test]
fn brk_asks_for_all_that_it_gives_back() {
    let mut space = space();
    let start = space.layout().start_brk;
    let call = Call::Brk {
        addr: start + 0x8000,
    };
    assert_eq!(perform(&mut space, &call), start + 0x8000);
    let call = Call::Mprotect {
        addr: start + 0x5000,
        len: 0x1000,
        prot: 7,
        pkey: -1,
    };
    perform(&mut space, &call);
    let all = [
        (start, start + 0x5000),
        (start + 0x5000, start + 0x6000),
        (start + 0x6000, start + 0x8000),
    ];
    let back = |addr| Call::Brk { addr };
    assert_eq!(asked(&space, &back(start + 0x3000)), all);
    assert_eq!(asked(&space, &back(start)), all);
    // A question, which changes nothing.
    assert_eq!(asked(&space, &back(0)), []);
}

/// A move that leaves the old range mapped unlocks the whole area around it, beyond the range: a neighbour that was written while it could not share an owner
/// may share from then on.
#[test]
fn a_move_without_unmapping_asks_beside_the_whole_area() {
    let mut space = space();
    map(&mut space, 0x10_0000, 0xc000);
    let lock = Call::Mlock {
        addr: 0x10_4000,
        len: 0x6000,
        flags: 0,
    };
    perform(&mut space, &lock);
    let call = Call::Mremap {
        old_addr: 0x10_6000,
        old_len: 0x1000,
        new_len: 0x1000,
        flags: 7,
        new_addr: 0x20_0000,
    };
    let below_and_above = [(0x10_0000, 0x10_4000), (0x10_a000, 0x10_c000)];
    assert_eq!(asked(&space, &call), below_and_above);
}
