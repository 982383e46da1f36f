//! Observers of the map compared with naive models over random histories, and with the running
//! kernel.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod acct;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod perf;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/running.rs"]
mod running;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod special;

use samara_mm::observe::{Contents, QueryFlags};
use samara_mm::{
    AddressSpace, Call, Config, Counted, Errno, File, FileArg, FileId, Layout, Limits, VmFlags,
};

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const PAGES: u64 = 40;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// Areas of several kinds at random.
fn space(random: &mut Random) -> AddressSpace {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let mut space = AddressSpace::new(config, limits, layout).unwrap();
    let id = FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let file = Counted::try_new(File::new(id, "/a file".into())).unwrap();
    for _ in 0..random.below(30) {
        let addr = BASE + random.below(PAGES) * PAGE;
        let len = (1 + random.below(5)) * PAGE;
        let _ = space.perform(&match random.below(4) {
            0 => Call::Munmap { addr, len },
            kind => Call::Mmap {
                addr,
                len,
                prot: random.below(8),
                // Fixed; shared or private; anonymous unless there is a file.
                flags: 0x10 | (1 + random.below(2)) | if kind == 1 { 0 } else { 0x20 },
                file: match kind {
                    1 => FileArg::File(file.clone()),
                    _ => FileArg::None,
                },
                offset: 0,
            },
        });
    }
    space
}

#[test]
fn a_probe_finds_what_is_anywhere_in_a_range() {
    let mut random = Random(1);
    for _ in 0..400 {
        let space = space(&mut random);
        let start = BASE + random.below(PAGES) * PAGE;
        let end = start + random.below(8) * PAGE;
        let mut expected = Contents::empty();
        for page in (start..end).step_by(PAGE as usize) {
            match space.lookup(page) {
                None => expected |= Contents::HOLE,
                Some(area) => {
                    if !area.vma.is_anonymous() {
                        expected |= Contents::FILE;
                    }
                    if !area.vma.flags.contains(VmFlags::WRITE) {
                        expected |= Contents::READ_ONLY;
                    }
                }
            }
        }
        assert_eq!(space.probe(start, end), expected);
    }
}

#[test]
fn places_are_where_the_page_and_the_byte_are() {
    let mut random = Random(4);
    for _ in 0..300 {
        let space = space(&mut random);
        let id = FileId {
            major: 8,
            minor: 1,
            inode: 7,
        };
        let offset = random.below(6 * PAGE);
        // Byte by byte of the same page offset.
        let expected: Vec<u64> = (0..PAGES + 8)
            .map(|page| BASE + page * PAGE + offset % PAGE)
            .filter(|&at| {
                space.lookup(at).is_some_and(|area| {
                    area.vma.file().is_some_and(|file| file.id == id)
                        && area.vma.page_offset(at) == offset / PAGE
                })
            })
            .collect();
        let found: Vec<u64> = space.places(id, offset).map(|(at, _)| at).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn three_regions_are_all_but_the_two_largest_gaps() {
    let mut random = Random(2);
    let mut none = 0;
    for _ in 0..400 {
        let space = space(&mut random);
        // Pages between the first and the last one, mapped or not.
        let mapped = |page: &u64| space.lookup(BASE + page * PAGE).is_some();
        let all: Vec<u64> = (0..PAGES + 8).filter(mapped).collect();
        let mut gaps: Vec<(u64, u64)> = all
            .windows(2)
            .filter(|pair| pair[1] - pair[0] > 1)
            .map(|pair| (pair[1] - pair[0] - 1, pair[0] + 1))
            .collect();
        let found = space.three_regions();
        if gaps.len() < 2 {
            assert_eq!(found, None);
            none += 1;
            continue;
        }
        // The largest first, of one size the lower ones.
        gaps.sort_by_key(|&(size, at)| (std::cmp::Reverse(size), at));
        let mut two = [gaps[0], gaps[1]];
        two.sort_by_key(|&(_, at)| at);
        let at = |page: u64| BASE + page * PAGE;
        let [one, other] = two;
        let expected = [
            at(all[0])..at(one.1),
            at(one.1 + one.0)..at(other.1),
            at(other.1 + other.0)..at(all[all.len() - 1] + 1),
        ];
        assert_eq!(found, Some(expected));
    }
    assert!(none < 200);
}

#[test]
fn a_query_is_the_first_area_that_meets_it() {
    let mut random = Random(3);
    for _ in 0..400 {
        let space = space(&mut random);
        for _ in 0..20 {
            let address = BASE + random.below(PAGES * PAGE);
            let flags = QueryFlags::from_bits_truncate(random.below(64));
            let meets = |perms: &[u8; 4], name: &str| {
                let letter = |i: usize, letter, flag| !flags.contains(flag) || perms[i] == letter;
                letter(0, b'r', QueryFlags::READABLE)
                    && letter(1, b'w', QueryFlags::WRITABLE)
                    && letter(2, b'x', QueryFlags::EXECUTABLE)
                    && letter(3, b's', QueryFlags::SHARED)
                    && (!flags.contains(QueryFlags::FILE_BACKED) || name.starts_with('/'))
            };
            let next = flags.contains(QueryFlags::COVERING_OR_NEXT);
            let expected = space
                .maps()
                .filter(|line| line.end > address && (next || line.start <= address))
                .find(|line| meets(&line.perms, line.name));
            let found = space.query(address, flags);
            match expected {
                None => assert_eq!(found, Err(Errno::ENOENT)),
                Some(line) => {
                    let found = found.unwrap();
                    assert_eq!((found.start, found.end), (line.start, line.end));
                    assert_eq!((found.offset, found.id), (line.offset, line.id));
                    assert_eq!((found.name, found.page_size), (line.name, PAGE));
                    let told = found.flags.bits();
                    for (i, letter) in [b'r', b'w', b'x', b's'].into_iter().enumerate() {
                        assert_eq!(told >> i & 1 == 1, line.perms[i] == letter);
                    }
                }
            }
        }
    }
    let space = space(&mut random);
    let unknown = QueryFlags::from_bits_retain(0x40);
    assert_eq!(space.query(BASE, unknown), Err(Errno::EINVAL));
}
