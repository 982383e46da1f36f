//! Look-ups from other threads while one thread maps, unmaps and protects. Every area that a reader finds must be one that there was:
//! what an area maps tells where it lies and how it is protected, and two ranges are always mapped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use samara_mm::{
    AddressSpace, Area, Call, Config, Counted, DriverFlags, File, FileArg, FileId, FileKind,
    Layout, Limits, MapView, Object, SharedMap, VmFlags,
};

const PAGE: u64 = 4096;
const PAGES: u64 = if cfg!(miri) { 8 } else { 48 };
/// Always mapped: a new file over the old ones again and again (`MAP_FIXED`).
const REPLACED: u64 = 0x1000_0000;
/// Always mapped: anonymous memory that is read-only or writable, piece by piece.
const PROTECTED: u64 = 0x2000_0000;
/// Mapped and unmapped.
const CHANGING: u64 = 0x3000_0000;

const CALLS: u64 = if cfg!(miri) { 12 } else { 1_000 };
const LOOKUPS: usize = if cfg!(miri) { 3 } else { 300 };
const READERS: u64 = 2;
const FILES: u64 = 16;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// File `n` is mapped with the protection `n % 8`, and so that its page offset is the page number plus `n`.
fn files() -> Vec<Counted<File>> {
    let file = |n| {
        Counted::try_new(File {
            id: FileId {
                major: 8,
                minor: 1,
                inode: n,
            },
            description: None,
            name: format!("/file/{n}").into(),
            readable: true,
            writable: true,
            noexec: false,
            kind: FileKind::Regular,
            seals: 0,
            driver: DriverFlags::default(),
            object: Object::none(),
        })
        .unwrap()
    };
    (0..FILES).map(file).collect()
}

fn map_file(addr: u64, len: u64, file: &Counted<File>) -> Call {
    let n = file.id.inode;
    Call::Mmap {
        addr,
        len,
        prot: n % 8,
        flags: 0x12, // MAP_PRIVATE | MAP_FIXED
        file: FileArg::File(file.clone()),
        offset: addr + n * PAGE,
    }
}

fn random_call(random: &mut Random, files: &[Counted<File>]) -> Call {
    let first = random.below(PAGES);
    let len = (1 + random.below((PAGES - first).min(9))) * PAGE;
    let file = &files[random.below(FILES) as usize];
    match random.below(8) {
        0..2 => map_file(REPLACED + first * PAGE, len, file),
        2..4 => map_file(CHANGING + first * PAGE, len, file),
        4..6 => Call::Munmap {
            addr: CHANGING + first * PAGE,
            len,
        },
        _ => Call::Mprotect {
            addr: PROTECTED + first * PAGE,
            len,
            prot: 1 + 2 * random.below(2),
            pkey: -1,
        },
    }
}

fn space(files: &[Counted<File>]) -> AddressSpace {
    let mut space =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    let anonymous = Call::Mmap {
        addr: PROTECTED,
        len: PAGES * PAGE,
        prot: 3,
        flags: 0x32,
        file: FileArg::None,
        offset: 0,
    };
    for call in [map_file(REPLACED, PAGES * PAGE, &files[0]), anonymous] {
        space.perform(&call).unwrap();
    }
    space
}

/// Checks what must hold for any VMA that a reader finds.
fn check_area(area: &Area<'_>) {
    let within = |base| base <= area.start && area.end <= base + PAGES * PAGE;
    assert!(area.start < area.end && area.len().is_multiple_of(PAGE));
    let access = area.vma.flags & (VmFlags::READ | VmFlags::WRITE | VmFlags::EXEC);
    match area.vma.file() {
        Some(file) => {
            assert!(within(REPLACED) || within(CHANGING), "{area:?}");
            let n = file.id.inode;
            assert_eq!(*file.name, format!("/file/{n}"));
            assert_eq!(area.page_offset(), (area.start >> 12) + n, "{area:?}");
            assert_eq!(access, VmFlags::from_bits_retain(n % 8), "{area:?}");
        }
        None => {
            assert!(within(PROTECTED), "{area:?}");
            assert!(
                access == VmFlags::READ || access == VmFlags::READ | VmFlags::WRITE,
                "{area:?}"
            );
        }
    }
}

fn look(view: &MapView<'_>, random: &mut Random) {
    let page = random.below(PAGES) * PAGE + random.below(PAGE);
    match random.below(5) {
        0 => {
            let area = view.lookup(REPLACED + page).expect("a hole was seen");
            assert!(area.start <= REPLACED + page && REPLACED + page < area.end);
            check_area(&area);
        }
        1 => {
            let area = view.lookup(PROTECTED + page).expect("a hole was seen");
            assert!(area.start <= PROTECTED + page && PROTECTED + page < area.end);
            check_area(&area);
        }
        2 => {
            if let Some(area) = view.find(CHANGING + page) {
                assert!(CHANGING + page < area.end);
                check_area(&area);
            }
            let below = view.find_below(CHANGING + page).unwrap();
            assert!(below.start < CHANGING + page);
            check_area(&below);
        }
        3 => {
            // Every page of both ranges, upwards.
            let mut reached = REPLACED;
            for area in view.areas(..CHANGING) {
                if reached == REPLACED + PAGES * PAGE {
                    reached = PROTECTED;
                }
                assert!(
                    area.start <= reached && reached < area.end,
                    "{reached:#x}: {area:?}"
                );
                reached = area.end;
                check_area(&area);
            }
            assert_eq!(reached, PROTECTED + PAGES * PAGE);
        }
        _ => {
            let mut reached = u64::MAX;
            for area in view.areas(..).rev() {
                assert!(area.start < reached, "{area:?}");
                reached = area.start;
                check_area(&area);
            }
            for line in view.maps(Layout::default()) {
                assert_eq!(
                    line.name.starts_with("/file/"),
                    line.id.inode != 0 || line.name == "/file/0"
                );
            }
        }
    }
}

fn read_until(over: &AtomicBool, shared: &SharedMap, seed: u64, done: &AtomicUsize) {
    let mut random = Random(seed);
    while !over.load(Ordering::Relaxed) {
        let view = shared.read();
        for _ in 0..1 + random.below(3) {
            look(&view, &mut random);
        }
        drop(view);
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn readers_beside_a_writer() {
    let files = files();
    let mut space = space(&files);
    // The same history without readers, in place.
    let mut alone = space.try_clone().unwrap();
    let mut random = Random(0x5eed);
    for round in 0..3 {
        // With the handles of the round before gone, changes were made in place.
        let shared = space.share();
        let over = AtomicBool::new(false);
        let counts: Vec<_> = (0..READERS).map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|s| {
            for (n, done) in counts.iter().enumerate() {
                let (shared, over) = (shared.clone(), &over);
                s.spawn(move || read_until(over, &shared, 17 + round * READERS + n as u64, done));
            }
            let mut calls = 0;
            while calls < CALLS
                || counts
                    .iter()
                    .any(|done| done.load(Ordering::Relaxed) < LOOKUPS)
            {
                let call = random_call(&mut random, &files);
                let result = space.perform(&call);
                assert_eq!(result, alone.perform(&call), "{call:?}");
                if random.below(8) == 0 {
                    let address = PROTECTED + random.below(PAGES) * PAGE;
                    assert_eq!(space.fault(address, true), alone.fault(address, true));
                }
                calls += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
        space.check().unwrap();
        assert!(shared.read().areas(..).eq(space.areas()));
        assert!(shared.read().maps(space.layout()).eq(space.maps()));
        assert!(space.areas().eq(alone.areas()));
        drop(shared);
        for _ in 0..CALLS / 4 {
            let call = random_call(&mut random, &files);
            let result = space.perform(&call);
            assert_eq!(result, alone.perform(&call), "{call:?}");
        }
        space.check().unwrap();
    }
    // A child shares nothing with its parent's readers.
    let shared = space.share();
    let child = space.fork().unwrap();
    drop(space);
    assert!(
        shared
            .read()
            .areas(..)
            .map(|a| a.start)
            .eq(child.areas().map(|a| a.start))
    );
    drop((shared, child, alone));
    for file in files {
        assert!(file.is_alone(), "{} leaks", file.name);
    }
}

/// A file mapped over another, over and over: no moment without one of them.
#[test]
fn no_hole_where_a_mapping_replaces_another() {
    let files = files();
    let mut space = space(&files);
    let shared = space.share();
    let over = AtomicBool::new(false);
    let looked = AtomicUsize::new(0);
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let view = shared.read();
                for page in 0..4 {
                    check_area(
                        &view
                            .lookup(REPLACED + page * PAGE)
                            .expect("a hole was seen"),
                    );
                }
                looked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut n = 0;
        while n < CALLS as usize || looked.load(Ordering::Relaxed) < LOOKUPS {
            let call = map_file(REPLACED, (1 + n as u64 % 4) * PAGE, &files[n % files.len()]);
            space.perform(&call).unwrap();
            n += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    space.check().unwrap();
}
