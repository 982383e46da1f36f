//! The reasons that keep neighbours apart, compared with a second implementation of the rule here,
//! over random histories.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use samara_mm::observe::Borders;
use samara_mm::{
    AddressSpace, Area, Backing, Call, Config, Counted, File, FileArg, FileId, Layout, Limits,
    Obstacles, SeedVma, VmFlags,
};

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const PAGES: u64 = 24;

fn space() -> AddressSpace {
    let config = Config {
        anon_vma_names: true,
        ..Config::default()
    };
    AddressSpace::new(config, Limits::default(), Layout::default()).unwrap()
}

/// The rule, as the manual pages and the module's documentation state it.
fn expected(lower: &Area<'_>, upper: &Area<'_>) -> Obstacles {
    let mut found = Obstacles::empty();
    let (a, b) = (lower.vma, upper.vma);
    found.set(Obstacles::APART, lower.end != upper.start);
    let without = |flags: VmFlags| flags - VmFlags::SOFTDIRTY;
    found.set(Obstacles::FLAGS, without(a.flags) != without(b.flags));
    let special = VmFlags::IO | VmFlags::DONTEXPAND | VmFlags::PFNMAP | VmFlags::MIXEDMAP;
    found.set(
        Obstacles::SPECIAL,
        a.flags.intersects(special) || b.flags.intersects(special),
    );
    let goes_on = lower.page_offset().wrapping_add(lower.len() / PAGE) == upper.page_offset();
    if lower.end == upper.start {
        found.set(Obstacles::OFFSET, !goes_on);
    } else {
        found.set(Obstacles::OFFSET, a.shift != b.shift);
    }
    let same = match (&a.backing, &b.backing) {
        (Backing::Anonymous, Backing::Anonymous) => true,
        (Backing::File(a), Backing::File(b)) => a.id == b.id && a.description == b.description,
        (Backing::SharedAnonymous(a), Backing::SharedAnonymous(b)) => a.id() == b.id(),
        _ => false,
    };
    found.set(Obstacles::OBJECT, !same);
    found.set(Obstacles::POLICY, a.policy != b.policy);
    found.set(Obstacles::NAME, a.name != b.name);
    let owners = match (a.anon(), b.anon()) {
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => !one.is_inherited(),
        (Some(a), Some(b)) => a == b,
    };
    found.set(Obstacles::OWNER, !owners);
    found
}

fn file(inode: u64) -> Counted<File> {
    let id = FileId {
        major: 8,
        minor: 1,
        inode,
    };
    Counted::try_new(File::new(id, "file".into())).unwrap()
}

#[test]
fn they_are_what_the_rule_says() {
    let files = [file(1), file(2)];
    let mut seen = Obstacles::empty();
    for seed in 1..=200u64 {
        let mut state = seed;
        let mut random = |limit: u64| {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % limit
        };
        let mut space = space();
        for _ in 0..60 {
            let addr = BASE + random(PAGES) * PAGE;
            let len = (1 + random(6)) * PAGE;
            let call = match random(8) {
                0..=2 => Call::Mmap {
                    addr,
                    len,
                    prot: random(4),
                    // Fixed; private or shared; anonymous unless there is a file.
                    flags: 0x30 | (1 + random(2)),
                    file: FileArg::None,
                    offset: 0,
                },
                3 => Call::Mmap {
                    addr,
                    len,
                    prot: 3,
                    flags: 0x12,
                    file: FileArg::File(files[random(2) as usize].clone()),
                    offset: random(3) * PAGE,
                },
                4 => Call::Mprotect {
                    addr,
                    len,
                    prot: random(4),
                    pkey: -1,
                },
                5 => Call::Munmap { addr, len },
                6 => Call::Madvise {
                    addr,
                    len,
                    advice: [9, 10, 11, 14, 15][random(5) as usize],
                },
                _ => {
                    space.note_written(addr, addr + len);
                    continue;
                }
            };
            let _ = space.perform(&call);
            let areas: Vec<_> = space.areas().collect();
            for pair in areas.windows(2) {
                let found = pair[0].obstacles(&pair[1]);
                assert_eq!(
                    found,
                    expected(&pair[0], &pair[1]),
                    "seed {seed}: {pair:#?}"
                );
                seen |= found;
            }
        }
        if seed % 8 == 0 {
            let child = space.fork().unwrap();
            let areas: Vec<_> = child.areas().collect();
            for pair in areas.windows(2) {
                assert_eq!(pair[0].obstacles(&pair[1]), expected(&pair[0], &pair[1]));
            }
        }
    }
    let all = Obstacles::APART
        | Obstacles::FLAGS
        | Obstacles::OFFSET
        | Obstacles::OBJECT
        | Obstacles::OWNER;
    assert!(seen.contains(all), "only {seen:?}");
}

#[test]
fn names_and_special_areas() {
    let mut space = space();
    let memory = Call::Mmap {
        addr: BASE,
        len: 4 * PAGE,
        prot: 3,
        flags: 0x32,
        file: FileArg::None,
        offset: 0,
    };
    space.perform(&memory).unwrap();
    space
        .perform(&Call::SetVmaName {
            addr: BASE,
            len: PAGE,
            name: Some("a".into()),
        })
        .unwrap();
    let areas: Vec<_> = space.areas().collect();
    assert_eq!(areas[0].obstacles(&areas[1]), Obstacles::NAME);
}

#[test]
fn a_map_that_comes_line_by_line_has_the_same() {
    let files = [file(1), file(2)];
    let mut state = 1u64;
    let mut random = |limit: u64| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % limit
    };
    for _ in 0..300 {
        let (mut space, mut borders) = (space(), Borders::new());
        let (mut at, mut found) = (BASE, Vec::new());
        for _ in 0..random(20) {
            at += random(2) * PAGE;
            let end = at + (1 + random(3)) * PAGE;
            let kind = random(4) as usize;
            let seed = SeedVma {
                start: at,
                end,
                prot: random(4),
                shared: random(4) == 0,
                offset: if kind < 2 { random(3) * PAGE } else { 0 },
                file: files.get(kind).cloned(),
                flags: None,
                name: (kind == 3 && random(2) == 0).then(|| "[anon:a]".into()),
                touched: random(2) == 0,
            };
            at = end;
            found.push(borders.next(seed.clone()).unwrap());
            space.seed(seed).unwrap();
        }
        let areas: Vec<_> = space.areas().collect();
        assert_eq!(found.len(), areas.len());
        for (i, found) in found.into_iter().enumerate() {
            let expected = i
                .checked_sub(1)
                .map(|lower| areas[lower].obstacles(&areas[i]));
            assert_eq!(found, expected);
        }
    }
}
