//! Versions as kernels tell them, and the rules that hold in each.

use super::*;
use alloc::format;
use alloc::string::{String, ToString};

#[test]
fn releases_are_read() {
    for (release, version) in [
        ("6.18.44-fc-v669", Some((6, 18, 44))),
        ("6.1.0-50-cloud-amd64", Some((6, 1, 0))),
        ("6.12.94+deb13-cloud-amd64", Some((6, 12, 94))),
        ("6.12-amd64", Some((6, 12, 0))),
        ("7.0-rc1", Some((7, 0, 0))),
        ("6", None),
        ("", None),
        ("six.one", None),
        ("6.99999", None),
    ] {
        let expected =
            version.map(|(major, minor, patch)| KernelVersion::stable(major, minor, patch));
        assert_eq!(release.parse().ok(), expected, "{release}");
    }
}

#[test]
fn rules_hold_from_their_version_on() {
    let rule = Rule::Mseal;
    assert!(!KernelVersion::new(6, 9).has(rule) && KernelVersion::new(6, 10).has(rule));
    assert!(KernelVersion::new(7, 0).has(rule) && !KernelVersion::new(5, 19).has(rule));
    assert!(KernelVersion::NEWEST.is_known() && !KernelVersion::new(7, 0).is_known());
    assert!(KernelVersion::stable(6, 18, 44).is_known());
}

#[test]
fn corrections_of_stable_releases_are_theirs_alone() {
    let has =
        |major, minor, patch| KernelVersion::stable(major, minor, patch).has(Rule::CopyStaysApart);
    assert!(has(6, 12, 115) && has(6, 12, 200) && has(6, 1, 192) && has(6, 1, 193));
    assert!(!has(6, 12, 113) && !has(6, 13, 117) && !has(6, 18, 44));
    assert!(!has(6, 1, 190) && !has(6, 2, 0) && !has(6, 2, 200));
}

#[test]
fn stable_releases_are_found_where_distributions_name_them() {
    for (release, version, expected) in [
        (
            "6.1.0-57-cloud-amd64",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)",
            (6, 1, 192),
        ),
        (
            "6.12.118+deb13-amd64",
            "#1 SMP Debian 6.12.118-1",
            (6, 12, 118),
        ),
        (
            "6.8.0-31-generic",
            "#31-Ubuntu SMP Sat Apr 20 00:40:06 UTC 2024 Ubuntu 6.8.0-31.31-generic 6.8.1",
            (6, 8, 1),
        ),
        (
            "6.12.9-200.fc41.x86_64",
            "#1 SMP Thu Jan  9 16:05:40 UTC 2025",
            (6, 12, 9),
        ),
        // Another branch, no third number, a date and the release's own 0 tell nothing.
        (
            "6.1.0-57-amd64",
            "Debian 6.12.3-1 6.1 6.1.0 2026.1.9",
            (6, 1, 0),
        ),
        // What the release says itself goes first.
        ("6.18.44", "built from 6.18.43", (6, 18, 44)),
    ] {
        let expected = KernelVersion::stable(expected.0, expected.1, expected.2);
        assert_eq!(KernelVersion::from_uname(release, version), Ok(expected));
    }
    let none = KernelVersion::from_uname("", "Debian 6.1.192-3");
    assert_eq!(none, Err(NoVersion));
}

/// As 6.1.176, 6.1.192, 6.12.118, 6.16.12 and 6.18.44 did it: two areas of four pages with a page between them, into which the lower one grows.
#[test]
fn what_grows_takes_in_an_untouched_area_since_6_16() {
    use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
    let at = |page: u64| 0x1_0000_0000 + (page << 12);
    let joins = |minor, lower_is_written, upper_is_written, in_child| {
        let config = Config {
            kernel: KernelVersion::new(6, minor),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        for page in [0, 5] {
            let mmap = Call::Mmap {
                addr: at(page),
                len: 4 << 12,
                prot: 3,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            };
            space.perform(&mmap).unwrap();
        }
        for (page, is_written) in [(0, lower_is_written), (5, upper_is_written)] {
            if is_written {
                space.fault(at(page), true).unwrap();
            }
        }
        if in_child {
            space = space.fork().unwrap();
        }
        let mremap = Call::Mremap {
            old_addr: at(3),
            old_len: 1 << 12,
            new_len: 2 << 12,
            flags: 0,
            new_addr: 0,
        };
        assert_eq!(space.perform(&mremap), Ok(at(3)));
        space.check().unwrap();
        space.areas().count() == 1
    };
    for in_child in [false, true] {
        for minor in [1, 12, 15] {
            assert!(!joins(minor, true, false, in_child), "6.{minor}");
        }
        assert!(joins(16, true, false, in_child) && joins(18, true, false, in_child));
        for minor in [1, 18] {
            assert!(joins(minor, false, false, in_child), "6.{minor}");
            assert!(!joins(minor, true, true, in_child), "6.{minor}");
            assert_eq!(joins(minor, false, true, in_child), !in_child, "6.{minor}");
        }
    }
}

/// Maps 16 pages at page 16 and copies `from..from + len` of them to page `to`, as the oracle did on both releases.
#[test]
fn copies_join_what_they_are_of_or_stay_apart() {
    use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
    const FIXED: u64 = 0x32;
    const LOCKED: u64 = 0x2000;
    let at = |page: u64| 0x1_0000_0000 + (page << 12);
    let copied = |kernel, flags, from, len: u64, to| {
        let config = Config {
            kernel,
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        let mmap = Call::Mmap {
            addr: at(16),
            len: 16 << 12,
            prot: 0,
            flags: FIXED | flags,
            file: FileArg::None,
            offset: 0,
        };
        space.perform(&mmap).unwrap();
        let mremap = Call::Mremap {
            old_addr: at(from),
            old_len: len << 12,
            new_len: len << 12,
            flags: 7,
            new_addr: at(to),
        };
        assert_eq!(space.perform(&mremap), Ok(at(to)));
        space.check().unwrap();
        let pages = |address| (address - at(0)) >> 12;
        let areas: alloc::vec::Vec<_> = space
            .areas()
            .map(|area| (pages(area.start), pages(area.end)))
            .collect();
        (areas, space.stats().pages.locked)
    };
    type Areas = &'static [(u64, u64)];
    let rows: [(u64, u64, u64, u64, Areas, Areas); 10] = [
        (0, 20, 4, 32, &[(16, 36)], &[(16, 32), (32, 36)]),
        (0, 20, 4, 12, &[(12, 32)], &[(12, 16), (16, 32)]),
        (0, 24, 4, 15, &[(15, 32)], &[(15, 19), (19, 32)]),
        (0, 24, 4, 28, &[(16, 32)], &[(16, 28), (28, 32)]),
        (0, 16, 16, 32, &[(16, 48)], &[(16, 32), (32, 48)]),
        (
            0,
            20,
            4,
            100,
            &[(16, 32), (100, 104)],
            &[(16, 32), (100, 104)],
        ),
        (
            LOCKED,
            20,
            4,
            100,
            &[(16, 32), (100, 104)],
            &[(16, 20), (20, 24), (24, 32), (100, 104)],
        ),
        (
            LOCKED,
            20,
            4,
            32,
            &[(16, 36)],
            &[(16, 20), (20, 24), (24, 36)],
        ),
        (
            LOCKED,
            28,
            4,
            32,
            &[(16, 36)],
            &[(16, 28), (28, 32), (32, 36)],
        ),
        (
            LOCKED,
            20,
            4,
            12,
            &[(12, 32)],
            &[(12, 20), (20, 24), (24, 32)],
        ),
    ];
    for (flags, from, len, to, before, after) in rows {
        let row = (flags, from, len, to);
        for (minor, old, new) in [(12, 113, 115), (1, 190, 192)] {
            let [old, new] = [old, new].map(|patch| KernelVersion::stable(6, minor, patch));
            assert_eq!(copied(old, flags, from, len, to).0, before, "{row:?}");
            let (areas, locked) = copied(new, flags, from, len, to);
            assert_eq!(areas, after, "{new}: {row:?}");
            assert_eq!(locked, if flags == 0 { 0 } else { 16 }, "{new}: {row:?}");
        }
    }
}

/// As 6.1.192 and 6.12.118 did it: a copy between what it is of and another area that it could join.
#[test]
fn copies_beside_what_they_are_of_join_others_or_nothing() {
    use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
    let at = |page: u64| 0x1_0000_0000 + (page << 12);
    let copied = |kernel, maps: &[(u64, u64)], from, to| {
        let config = Config {
            kernel,
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        for &(page, pages) in maps {
            let mmap = Call::Mmap {
                addr: at(page),
                len: pages << 12,
                prot: 3,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            };
            space.perform(&mmap).unwrap();
        }
        let mremap = Call::Mremap {
            old_addr: at(from),
            old_len: 4 << 12,
            new_len: 4 << 12,
            flags: 7,
            new_addr: at(to),
        };
        assert_eq!(space.perform(&mremap), Ok(at(to)));
        space.check().unwrap();
        let pages = |address| (address - at(0)) >> 12;
        space
            .areas()
            .map(|area| (pages(area.start), pages(area.end)))
            .collect::<alloc::vec::Vec<_>>()
    };
    type Areas = &'static [(u64, u64)];
    let rows: [(Areas, u64, u64, Areas, Areas); 6] = [
        (
            &[(16, 32)],
            20,
            24,
            &[(16, 24), (24, 28), (28, 48)],
            &[(16, 24), (24, 48)],
        ),
        (
            &[(16, 32)],
            28,
            24,
            &[(16, 24), (24, 28), (28, 48)],
            &[(16, 28), (28, 48)],
        ),
        (
            &[(16, 8), (28, 4)],
            18,
            24,
            &[(16, 24), (24, 28), (28, 32)],
            &[(16, 24), (24, 32)],
        ),
        (
            &[(16, 8), (8, 4)],
            18,
            12,
            &[(8, 12), (12, 16), (16, 24)],
            &[(8, 16), (16, 24)],
        ),
        (
            &[(16, 8), (100, 4), (108, 4)],
            18,
            104,
            &[(16, 24), (100, 112)],
            &[(16, 24), (100, 112)],
        ),
        (
            &[(16, 8), (108, 4)],
            18,
            104,
            &[(16, 24), (104, 112)],
            &[(16, 24), (104, 112)],
        ),
    ];
    for (maps, from, to, alone, joined) in rows {
        let row = (maps, from, to);
        let older = copied(KernelVersion::stable(6, 1, 192), maps, from, to);
        assert_eq!(older, alone, "{row:?}");
        let newer = copied(KernelVersion::stable(6, 12, 118), maps, from, to);
        assert_eq!(newer, joined, "{row:?}");
    }
}

/// As in 6.1.192 and 6.12.118, and not as in 6.1.176 and 6.12.94: a range that was moved and then
/// emptied, with a new mapping next to it.
#[test]
fn what_a_copy_has_emptied_is_numbered_anew() {
    use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
    let at = |page: u64| 0x1_0000_0000 + (page << 12);
    let areas = |minor, patch, copied: u64, below: bool| {
        let config = Config {
            kernel: KernelVersion::stable(6, minor, patch),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        let mmap = |page, pages: u64| Call::Mmap {
            addr: at(page),
            len: pages << 12,
            prot: 3,
            flags: 0x32,
            file: FileArg::None,
            offset: 0,
        };
        let mremap = |page, pages: u64, flags, to| Call::Mremap {
            old_addr: at(page),
            old_len: pages << 12,
            new_len: pages << 12,
            flags,
            new_addr: at(to),
        };
        space.perform(&mmap(16, 4)).unwrap();
        space.fault(at(16), true).unwrap();
        space.perform(&mremap(16, 4, 3, 40)).unwrap();
        space.perform(&mremap(40, copied, 7, 100)).unwrap();
        space
            .perform(&mmap(if below { 36 } else { 44 }, 4))
            .unwrap();
        space.check().unwrap();
        space.areas().count()
    };
    for below in [false, true] {
        for (minor, patch) in [(1, 192), (12, 118)] {
            assert_eq!(areas(minor, patch, 4, below), 2, "6.{minor}.{patch}");
            // Of which a part was copied has pages that it may have elsewhere.
            assert_eq!(areas(minor, patch, 2, below), 3, "6.{minor}.{patch}");
        }
        for (minor, patch) in [(1, 176), (12, 94), (18, 44)] {
            assert_eq!(areas(minor, patch, 4, below), 3, "6.{minor}.{patch}");
        }
    }
}

/// A private mapping of `/dev/zero` with written pages, copied as on 6.1.192, 6.12.118 and 6.18.44.
#[test]
fn what_a_copy_has_emptied_of_dev_zero_keeps_its_offset() {
    use crate::{
        AddressSpace, Call, Config, Counted, File, FileArg, FileId, FileKind, Layout, Limits,
    };
    let at = |page: u64| 0x1_0000_0000 + (page << 12);
    let id = FileId {
        major: 0,
        minor: 5,
        inode: 4,
    };
    let zero = File {
        kind: FileKind::DevZero,
        ..File::new(id, "/dev/zero".into())
    };
    let zero = Counted::try_new(zero).unwrap();
    for (minor, patch) in [(1, 192), (12, 118), (18, 44)] {
        let config = Config {
            kernel: KernelVersion::stable(6, minor, patch),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        let mmap = Call::Mmap {
            addr: at(16),
            len: 4 << 12,
            prot: 3,
            flags: 0x12,
            file: FileArg::File(zero.clone()),
            offset: 20 << 12,
        };
        space.perform(&mmap).unwrap();
        space.fault(at(16), true).unwrap();
        let mremap = Call::Mremap {
            old_addr: at(16),
            old_len: 4 << 12,
            new_len: 4 << 12,
            flags: 7,
            new_addr: at(100),
        };
        assert_eq!(space.perform(&mremap), Ok(at(100)));
        space.check().unwrap();
        let offsets: alloc::vec::Vec<_> = space.areas().map(|area| area.page_offset()).collect();
        assert_eq!(offsets, [20, 20], "6.{minor}.{patch}");
    }
}

#[test]
fn a_mapping_without_a_place_may_have_taken_a_key() {
    use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
    for (minor, next) in [(1, 1), (12, 2), (18, 2)] {
        let config = Config {
            kernel: KernelVersion::new(6, minor),
            pkeys: true,
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        let amid_a_page = Call::Mmap {
            addr: 0x1_0000_0473,
            len: 0x1000,
            prot: 4,
            flags: 0x32,
            file: FileArg::None,
            offset: 0,
        };
        assert_eq!(space.perform(&amid_a_page), Err(crate::Errno::EINVAL));
        let alloc = Call::PkeyAlloc {
            flags: 0,
            rights: 0,
        };
        assert_eq!(space.perform(&alloc), Ok(next), "6.{minor}");
    }
}

#[test]
fn lengths_beyond_the_end_of_addresses_are_as_the_numbers_wrap() {
    use crate::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};
    for (minor, old_len, new_len, expected) in [
        // What is left of 6.1: the range that is unmapped begins below all addresses, or where nothing is.
        (1, u64::MAX << 12, 1 << 63, Err(Errno::EINVAL)),
        (1, u64::MAX << 12, u64::MAX << 13, Ok(0x1_0000_0000)),
        (12, u64::MAX << 12, u64::MAX << 13, Ok(0x1_0000_0000)),
        (18, u64::MAX << 12, u64::MAX << 13, Err(Errno::EINVAL)),
    ] {
        let config = Config {
            kernel: KernelVersion::new(6, minor),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        let mmap = Call::Mmap {
            addr: 0x1_0000_0000,
            len: 0x1000,
            prot: 0,
            flags: 0x32,
            file: FileArg::None,
            offset: 0,
        };
        space.perform(&mmap).unwrap();
        let mremap = Call::Mremap {
            old_addr: 0x1_0000_0000,
            old_len,
            new_len,
            flags: 0,
            new_addr: 0,
        };
        assert_eq!(space.perform(&mremap), expected, "6.{minor} {new_len:x}");
    }
}

/// The page for people lists the table, row by row.
#[test]
fn the_page_lists_every_rule() {
    let mut table = String::from("| since | rule |\n|---|---|\n");
    for (versions, text) in RULES {
        let since: alloc::vec::Vec<_> = versions.iter().map(ToString::to_string).collect();
        table += &format!("| {} | {text} |\n", since.join(", "));
    }
    let page = include_str!("../../docs/kernels.md");
    assert!(
        page.contains(&table),
        "docs/kernels.md should have:\n{table}"
    );
}
