//! Holding an area a second time is quick, and finds its current state: after each call every page
//! is held twice, and compared with the areas. Areas that calls have removed while a handle existed
//! are freed in time.

use samara_mm::{AddressSpace, Advice, Errno, MmapOptions, MremapOptions, Prot, SharedMap};

use crate::world::{objects, space};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;
const PAGES: u64 = 40;

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

fn memory(page: u64, pages: u64) -> MmapOptions {
    MmapOptions::anonymous(pages * PAGE)
        .prot(Prot::READ | Prot::WRITE)
        .fixed(at(page))
}

/// Checks that the area held at each page is the current one, the second time, too.
fn compare(space: &AddressSpace, map: &SharedMap, why: &str) {
    for page in (0..PAGES).map(at) {
        for time in ["first", "again"] {
            let held = map.hold(page);
            let held = held.as_ref().map(|held| held.area());
            let there = space.lookup(page);
            let ranges = [&held, &there].map(|area| area.as_ref().map(|a| (a.start, a.end)));
            assert_eq!(ranges[0], ranges[1], "{why}, {time}, {page:#x}");
            assert_eq!(
                held.map(|area| area.vma.flags),
                there.map(|area| area.vma.flags),
                "{why}, {time}, {page:#x}"
            );
        }
    }
}

/// Numbers in no order that anybody knows.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn random_call(space: &mut AddressSpace, random: &mut Random) -> Result<(), Errno> {
    let page = random.below(PAGES - 8);
    let pages = 1 + random.below(8);
    let (addr, len) = (at(page), pages * PAGE);
    let prot = match random.below(3) {
        0 => Prot::READ,
        1 => Prot::READ | Prot::WRITE,
        _ => Prot::NONE,
    };
    match random.below(7) {
        0 | 1 => space.mmap(&memory(page, pages).prot(prot)).map(drop),
        2 => space.munmap(addr, len),
        3 => space.mprotect(addr, len, prot),
        4 => {
            let to = at(random.below(PAGES - 8));
            let options = MremapOptions::new(addr, len, len).to(to);
            space.mremap(&options).map(drop)
        }
        5 => space.madvise(addr, len, Advice::DONTFORK),
        _ => space.fault(addr, true).map(drop).map_err(|_| Errno::EFAULT),
    }
}

#[test]
fn what_is_held_again_is_what_is_there() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut space = space();
        let map = space.share();
        for step in 0..200 {
            // Refused ones, too, which may have done a part.
            let _ = random_call(&mut space, &mut random);
            compare(&space, &map, &format!("seed {seed}, step {step}"));
        }
        space.check().unwrap();
    }
}

#[test]
fn handles_that_come_and_go_begin_anew() {
    let mut random = Random(99);
    let mut space = space();
    for step in 0..200 {
        let map = space.share();
        let second = map.clone();
        compare(&space, &map, &format!("step {step}"));
        drop(map);
        let _ = random_call(&mut space, &mut random);
        compare(&space, &second, &format!("step {step}, the second"));
        drop(second);
        // In place.
        let _ = random_call(&mut space, &mut random);
    }
}

/// More areas than the cache has places are removed at once, while areas next to them are held
/// again.
#[test]
fn many_areas_go_in_one_call() {
    let mut space = space();
    let map = space.share();
    for round in 0..3 {
        for page in 0..PAGES {
            let prot = if page % 2 == 0 {
                Prot::READ
            } else {
                Prot::READ | Prot::WRITE
            };
            for far in 0..3 {
                let there = at(page + far * 1000);
                let area = MmapOptions::anonymous(PAGE).prot(prot).fixed(there);
                space.mmap(&area).unwrap();
            }
        }
        compare(&space, &map, "mapped");
        space.munmap(at(1), (PAGES - 2) * PAGE).unwrap();
        compare(&space, &map, &format!("round {round}"));
        space.munmap(at(1000), 2000 * PAGE).unwrap();
        compare(&space, &map, &format!("round {round}, those far away"));
    }
}

#[test]
fn files_go_with_the_call_that_unmaps_them() {
    let mut space = space();
    let map = space.share();
    let file = objects(0).files[0].1.clone();
    let handles = file.handles();
    let mapped = |space: &mut AddressSpace| {
        let options = MmapOptions::file(file.clone(), 0, 4 * PAGE)
            .prot(Prot::READ)
            .fixed(at(0));
        space.mmap(&options).unwrap();
        // Three areas.
        space.mprotect(at(1), PAGE, Prot::NONE).unwrap();
        compare(space, &map, "mapped");
        assert!(file.handles() > handles);
    };
    mapped(&mut space);
    space.munmap(at(0), 4 * PAGE).unwrap();
    assert_eq!(file.handles(), handles, "unmapped");
    mapped(&mut space);
    space.mmap(&memory(0, 4)).unwrap();
    assert_eq!(file.handles(), handles, "mapped over");
    mapped(&mut space);
    compare(&space, &map, "at last");
    drop((map, space));
    assert_eq!(file.handles(), handles, "all gone");
}
