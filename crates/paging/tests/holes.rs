//! Memory in several ranges with counts in given memory: holes have no counts, and everything else
//! is the same as with one range.
#![cfg(feature = "hosted")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod leaked;
mod world;

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use leaked::leaked;
use samara_paging::format::{Sv39, X86_64};
use samara_paging::{
    Arena, Attrs, Error, Exclusive, Frames, Kind, PAGE_SIZE, PageSize, PageTables, PhysMem,
    Physical, Source, check,
};
use samara_paging::{Format, FrameAllocator, Grace, HostMemory};
use world::{Protection, Random, World};

const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;

/// Frames of an arena at other addresses: parts of it in order, with holes between them.
struct Scattered {
    arena: Arena<HostMemory>,
    /// The place of each part of the arena, in bytes from the arena's start.
    pieces: Vec<(Range<u64>, u64)>,
}

impl Scattered {
    fn new(frames: usize, pieces: Vec<(Range<u64>, u64)>) -> Self {
        let arena = Arena::hosted(frames).unwrap();
        Self { arena, pieces }
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self
            .pieces
            .iter()
            .map(|(piece, at)| *at..at + (piece.end - piece.start))
            .collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    fn out(&self, inside: u64) -> u64 {
        let offset = inside - Arena::<HostMemory>::BASE;
        let (piece, at) = self
            .pieces
            .iter()
            .find(|(piece, _)| piece.contains(&offset))
            .unwrap();
        at + (offset - piece.start)
    }

    fn inside(&self, phys: u64) -> u64 {
        let found = self.pieces.iter().find_map(|(piece, at)| {
            let offset = phys.checked_sub(*at)?;
            (offset < piece.end - piece.start).then_some(piece.start + offset)
        });
        Arena::<HostMemory>::BASE + found.unwrap()
    }
}

// SAFETY: the arena's frames, each at one other address.
unsafe impl FrameAllocator for Scattered {
    fn alloc(&self, order: u32) -> Option<u64> {
        self.arena.alloc(order).map(|phys| self.out(phys))
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.arena.free(self.inside(phys), order) };
    }
}

// SAFETY: the arena's promise.
unsafe impl PhysMem for Scattered {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.arena.to_virt(self.inside(phys))
    }
}

fn counts(ranges: &[Range<u64>]) -> &'static mut [MaybeUninit<u8>] {
    let size = Frames::size_for(ranges).unwrap();
    // Not zero at first.
    leaked(size, 0xa5)
}

/// Returns 24 MiB: a range at 0, the largest around 3 GiB, one above a hole of a terabyte, and one
/// adjacent to it.
fn scattered() -> Scattered {
    let mib = |at: u64| at << 20;
    Scattered::new(
        12 * 512,
        vec![
            (mib(0)..mib(4), 0),
            (mib(4)..mib(14), 3 * GIANT - LARGE),
            (mib(14)..mib(20), 1 << 40),
            (mib(20)..mib(24), (1 << 40) + mib(6)),
        ],
    )
}

fn frames(memory: &Physical<Scattered, Grace>) -> &Arena<HostMemory> {
    &memory.backing().arena
}

#[test]
fn holes_have_no_counts() {
    let ranges = scattered().ranges();
    let size = Frames::size_for(&ranges).unwrap();
    assert!(
        (4 * 12 * 512..4 * 12 * 512 + 8192).contains(&size),
        "{size}"
    );
    // The two adjacent ranges are one. The largest has 10 MiB and is the first of two of that size.
    let memory = counts(&ranges);
    let physical = Physical::with_counts(scattered(), Grace::new(), &ranges, memory).unwrap();
    let counted = physical.frames();
    assert_eq!(
        (counted.count(), counted.base()),
        (12 * 512, 3 * GIANT - LARGE)
    );
    for range in &ranges {
        assert!(counted.contains(range.start) && counted.contains(range.end - 1));
        assert!(!counted.contains(range.start.wrapping_sub(1)) || range.start > 1 << 40);
    }
    for hole in [
        4 << 20,
        3 * GIANT - LARGE - 1,
        3 * GIANT + (8 << 20),
        (1 << 40) + (10 << 20),
    ] {
        assert!(!counted.contains(hole), "{hole:#x}");
        assert_eq!(counted.info(hole), None);
        assert!(!counted.is_private(hole));
    }
}

#[test]
fn every_frame_is_counted_once_wherever_it_is() {
    let ranges = scattered().ranges();
    let memory =
        Physical::with_counts(scattered(), Grace::new(), &ranges, counts(&ranges)).unwrap();
    let free = frames(&memory).free_frames();
    let mut all = Vec::new();
    while let Ok(phys) = memory.alloc_page(Kind::Anon) {
        let info = memory.frames().info(phys).unwrap();
        assert_eq!((info.mappings, info.references), (0, 1));
        all.push(phys);
    }
    assert_eq!(all.len() as u64, free);
    let census = memory.frames().census();
    assert_eq!((census.anon, census.file, census.tables), (free, 1, 0));
    let used = memory.frames().used();
    assert_eq!(used, 0..(1 << 40) + (10 << 20));
    // Each frame gets a second reference and loses it: an index used by two frames would be
    // noticed.
    all.iter().for_each(|&phys| memory.get(phys).unwrap());
    all.iter().for_each(|&phys| memory.put(phys));
    assert_eq!(frames(&memory).free_frames(), 0);
    all.iter().for_each(|&phys| memory.put(phys));
    assert_eq!(frames(&memory).free_frames(), free);
    assert_eq!(memory.frames().census().anon, 0);
}

#[test]
fn blocks_come_back_whole_from_every_range() {
    let ranges = scattered().ranges();
    let memory = Arc::new(
        Physical::with_counts(scattered(), Grace::new(), &ranges, counts(&ranges)).unwrap(),
    );
    let free = frames(&memory).free_frames();
    let space = PageTables::<X86_64, _>::new(memory.clone(), 1).unwrap();
    let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    let mut at = GIANT;
    while let Ok(block) = memory.alloc_block(9, Kind::Anon) {
        assert!(block.is_multiple_of(LARGE));
        space
            .map(at, PageSize::Large, Source::Owned(block), attrs, &())
            .unwrap();
        at += LARGE;
    }
    assert!(at >= GIANT + 10 * LARGE);
    check(&[&space]).unwrap();
    // As a whole, and page by page in another order.
    space.unmap(GIANT..GIANT + 3 * LARGE, &()).unwrap();
    for page in (0..512).rev() {
        let page = GIANT + 3 * LARGE + page * PAGE_SIZE;
        space.unmap(page..page + PAGE_SIZE, &()).unwrap();
    }
    check(&[&space]).unwrap();
    space.unmap(GIANT..at, &()).unwrap();
    check(&[&space]).unwrap();
    drop(space);
    memory.reclaim();
    assert_eq!(frames(&memory).free_frames(), free);
    // They are whole blocks again.
    let blocks: Vec<_> = std::iter::from_fn(|| memory.alloc_block(9, Kind::Anon).ok()).collect();
    assert_eq!(blocks.len() as u64, (at - GIANT) / LARGE);
    blocks.iter().for_each(|&block| memory.put_block(block, 9));
}

#[test]
fn ranges_of_every_shape_are_numbered_without_overlap() {
    let mut random = Random(4711);
    for _ in 0..300 {
        let mut ranges = Vec::new();
        let mut at = random.below(600) * PAGE_SIZE;
        for _ in 0..1 + random.below(6) {
            let end = at + random.below(900) * PAGE_SIZE;
            ranges.push(at..end);
            at = end + random.below(3) * random.below(700) * PAGE_SIZE;
        }
        let frames: u64 = ranges.iter().map(|r| (r.end - r.start) / PAGE_SIZE).sum();
        if frames == 0 {
            continue;
        }
        let given = Given::new(&ranges);
        let counts = counts(&ranges);
        // SAFETY: one thread.
        let exclusive = unsafe { Exclusive::new() };
        let memory = Physical::with_counts(given, exclusive, &ranges, counts).unwrap();
        assert_eq!(memory.frames().count(), frames);
        let mut all = vec![memory.zero_page()];
        while let Ok(phys) = memory.alloc_page(Kind::Anon) {
            all.push(phys);
        }
        assert_eq!(all.len() as u64, frames);
        // Each frame has a word of its own.
        for (i, &phys) in all.iter().enumerate() {
            (0..i % 5).for_each(|_| memory.get(phys).unwrap());
        }
        for (i, &phys) in all.iter().enumerate() {
            let references = memory.frames().info(phys).unwrap().references;
            assert_eq!(references as usize, 1 + i % 5);
        }
        let used = memory.frames().used();
        assert_eq!(used.start, *all.iter().min().unwrap());
        assert_eq!(used.end, all.iter().max().unwrap() + PAGE_SIZE);
        for (i, &phys) in all.iter().enumerate().skip(1) {
            (0..=i % 5).for_each(|_| memory.put(phys));
        }
        assert_eq!(
            memory.backing().free.lock().unwrap().len() as u64,
            frames - 1
        );
    }
}

/// Frames whose bytes are all those of the zero page.
struct Given {
    free: Mutex<Vec<u64>>,
    zero: Box<[u64; 512]>,
}

impl Given {
    fn new(ranges: &[Range<u64>]) -> Self {
        let pages = |range: &Range<u64>| range.clone().step_by(PAGE_SIZE as usize);
        Self {
            free: Mutex::new(ranges.iter().flat_map(pages).collect()),
            zero: Box::new([0; 512]),
        }
    }
}

// SAFETY: each frame is given out once.
unsafe impl FrameAllocator for Given {
    fn alloc(&self, order: u32) -> Option<u64> {
        assert_eq!(order, 0);
        self.free.lock().unwrap().pop()
    }

    unsafe fn free(&self, phys: u64, _order: u32) {
        self.free.lock().unwrap().push(phys);
    }
}

// SAFETY: frames are written here only to clear the zero page.
unsafe impl PhysMem for Given {
    fn to_virt(&self, _phys: u64) -> NonNull<u8> {
        NonNull::from(&*self.zero).cast()
    }
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let new = |ranges: &[Range<u64>], less: usize| {
        let size = Frames::size_for(ranges).unwrap_or(0);
        let counts = leaked(size - less.min(size), 0);
        // SAFETY: one thread.
        let exclusive = unsafe { Exclusive::new() };
        Physical::with_counts(
            Given::new(std::slice::from_ref(&(0..PAGE_SIZE))),
            exclusive,
            ranges,
            counts,
        )
        .map(|_| ())
    };
    assert_eq!(
        new(&[0..PAGE_SIZE, LARGE..LARGE + 1], 0),
        Err(Error::Misaligned)
    );
    assert_eq!(
        new(&[0..LARGE, PAGE_SIZE..2 * LARGE], 0),
        Err(Error::Misaligned)
    );
    assert_eq!(
        new(&[LARGE..2 * LARGE, 0..LARGE], 0),
        Err(Error::Misaligned)
    );
    assert_eq!(new(&[], 0), Err(Error::TooMany));
    assert_eq!(new(&[0..0, LARGE..LARGE], 0), Err(Error::TooMany));
    assert_eq!(
        new(&[0..1 << 42, 1 << 43..(1 << 43) + LARGE], 0),
        Err(Error::TooMany)
    );
    let fine = [0..LARGE, 2 * LARGE..3 * LARGE];
    assert_eq!(new(&fine, 0), Ok(()));
    assert_eq!(new(&fine, 1000), Err(Error::NoMemory));
}

/// Runs a history of three address spaces, with huge pages, forks and shared tables.
fn history<F: Format>(seed: u64) {
    let scattered = scattered();
    let ranges = scattered.ranges();
    let counts = counts(&ranges);
    let physical = Physical::with_counts(scattered, Grace::new(), &ranges, counts).unwrap();
    let mut world = World::<F, Scattered>::over(physical, 3);
    let mut random = Random(seed);
    for _ in 0..150 {
        let s = random.below(3) as usize;
        let page = [0, 1, 5, 513, 514, 1025][random.below(6) as usize];
        let result = match random.below(9) {
            0 | 1 => world.map(s, page),
            2 => world.map_huge(s, 1 + 512 * random.below(2)),
            3 => world.unmap(s, page..page + random.below(600)),
            4 => world.protect(s, 0..1030, Protection::Read),
            5 => world.protect(s, 0..1030, Protection::Write),
            6 => {
                let child = (s + 1) % 3;
                world.exit(child);
                world.fork(s, child, random.below(2) == 0, 1033)
            }
            _ => world.write(s, page).map(|_| ()),
        };
        assert!(matches!(result, Ok(()) | Err(Error::Exists)), "{result:?}");
        world.check();
    }
}

#[test]
fn histories_over_holes() {
    for seed in 1..4u64 {
        history::<X86_64>(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        history::<Sv39>(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
