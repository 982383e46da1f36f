//! An arena over ranges of physical memory, with its data in given memory: added frames are given
//! out once, aligned, from every range, and can be freed.
#![cfg(feature = "hosted")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod leaked;

use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use samara_paging::format::X86_64;
use samara_paging::{
    Arena, Attrs, DirectMap, Error, ForkFilter, FrameAllocator, Frames, Grace, Kind, Mapping,
    PAGE_SIZE, PageSize, PageTables, Physical, Ranges, Source, check,
};

use leaked::leaked;

const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;

thread_local! {
    static PROCESSOR: Cell<usize> = const { Cell::new(0) };
}

#[repr(align(4096))]
struct Page {
    _bytes: UnsafeCell<[u8; 4096]>,
}

/// The bytes of some of the memory. Other frames have no bytes, and only their numbers are used.
struct Mapped(Vec<(u64, Box<[Page]>)>);

// SAFETY: the bytes are accessed as the library does.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn none() -> Self {
        Self(Vec::new())
    }

    fn of(ranges: &[Range<u64>]) -> Self {
        let pages = |range: &Range<u64>| {
            let page = |_| Page {
                _bytes: UnsafeCell::new([0; 4096]),
            };
            ((range.end - range.start) / PAGE_SIZE, page)
        };
        let piece = |range: &Range<u64>| {
            let (count, page) = pages(range);
            (range.start, (0..count).map(page).collect())
        };
        Self(ranges.iter().map(piece).collect())
    }
}

// SAFETY: the pages do not move.
unsafe impl DirectMap for Mapped {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let found = self.0.iter().find_map(|(start, pages)| {
            let offset = phys.checked_sub(*start)? as usize;
            // SAFETY: within the pages.
            (offset < size_of_val(&**pages))
                .then(|| unsafe { NonNull::from(&**pages).cast().add(offset) })
        });
        found.unwrap()
    }

    fn processor(&self) -> usize {
        PROCESSOR.get()
    }
}

fn room(ranges: &[Range<u64>]) -> &'static mut [MaybeUninit<u8>] {
    let size = Arena::<Ranges<Mapped>>::size_for(ranges).unwrap();
    leaked(size, 0x5a)
}

fn empty(map: Mapped, ranges: &[Range<u64>]) -> Arena<Ranges<Mapped>> {
    Arena::over_ranges(map, ranges, room(ranges)).unwrap()
}

fn full(map: Mapped, ranges: &[Range<u64>]) -> Arena<Ranges<Mapped>> {
    let arena = empty(map, ranges);
    // SAFETY: nothing else uses them.
    let added = unsafe { arena.add(ranges.to_vec()) };
    assert_eq!((added, added), (arena.frames(), arena.free_frames()));
    arena
}

/// Returns ranges below 640 KiB, of 10 MiB around 3 GiB, and of 6 MiB above a hole of a terabyte.
fn ranges() -> [Range<u64>; 3] {
    let start = 3 * GIANT - LARGE - 5 * PAGE_SIZE;
    [
        0..160 * PAGE_SIZE,
        start..start + 5 * LARGE,
        (1 << 40) + 3 * PAGE_SIZE..(1 << 40) + 3 * LARGE,
    ]
}

#[test]
fn only_what_was_added_is_given_out_and_each_frame_once() {
    let ranges = ranges();
    let arena = empty(Mapped::none(), &ranges);
    assert_eq!((arena.free_frames(), arena.alloc(0)), (0, None));
    assert_eq!(arena.alloc_table(), None);
    // Partial pages, a part beyond a range, one across two ranges, and one outside all of them.
    let free = [
        1..3 * PAGE_SIZE + 1,
        150 * PAGE_SIZE..3 * GIANT,
        (1 << 40) + LARGE..u64::MAX,
        5..17,
    ];
    // SAFETY: as above.
    let added = unsafe { arena.add(free) };
    let mut expected = BTreeSet::new();
    expected.extend([1, 2].map(|page| page * PAGE_SIZE));
    expected.extend((150 * PAGE_SIZE..160 * PAGE_SIZE).step_by(4096));
    expected.extend((ranges[1].start..3 * GIANT).step_by(4096));
    expected.extend(((1 << 40) + LARGE..ranges[2].end).step_by(4096));
    assert_eq!(added, expected.len() as u64);
    assert_eq!(arena.free_frames(), added);
    for round in 0..3 {
        let mut found = BTreeSet::new();
        let mut take = |phys: u64| assert!(found.insert(phys), "{phys:#x} twice");
        match round {
            0 => (0..added).for_each(|_| take(arena.alloc(0).unwrap())),
            1 => (0..added).for_each(|_| take(arena.alloc_table().unwrap())),
            _ => {
                let mut frames = vec![0; added as usize];
                assert_eq!(arena.alloc_bulk(&mut frames), frames.len());
                frames.into_iter().for_each(take);
            }
        }
        assert_eq!(found, expected);
        assert_eq!((arena.alloc(0), arena.free_frames()), (None, 0));
        let runs: Vec<_> = found.iter().map(|&phys| phys..phys + PAGE_SIZE).collect();
        match round {
            // SAFETY: allocated here, and nothing else uses it.
            0 => runs
                .iter()
                .for_each(|run| unsafe { arena.free(run.start, 0) }),
            1 => runs
                .iter()
                // SAFETY: as above.
                .for_each(|run| unsafe { arena.free_table(run.start) }),
            // SAFETY: as above.
            _ => unsafe { arena.free_runs(&runs) },
        }
        assert_eq!(arena.free_frames(), added);
    }
}

#[test]
fn blocks_are_aligned_in_physical_memory() {
    let at = 5 * GIANT + 3 * LARGE + 7 * PAGE_SIZE;
    let ranges = [
        PAGE_SIZE..3 * LARGE,
        at..at + 3 * GIANT,
        1 << 41..(1 << 41) + GIANT + LARGE,
    ];
    let arena = full(Mapped::none(), &ranges);
    let free = arena.free_frames();
    for (order, count) in [(18, 3), (9, 2 + 1535 + 513)] {
        let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(order)).collect();
        assert_eq!(blocks.len(), count);
        let len = PAGE_SIZE << order;
        for block in &blocks {
            assert!(block.is_multiple_of(len));
            let inside = |range: &Range<u64>| range.contains(block) && block + len <= range.end;
            assert!(ranges.iter().any(inside), "{block:#x}");
        }
        let distinct: BTreeSet<_> = blocks.iter().collect();
        assert_eq!(distinct.len(), blocks.len());
        // SAFETY: as above.
        blocks
            .iter()
            .for_each(|&block| unsafe { arena.free(block, order) });
        assert_eq!(arena.free_frames(), free);
    }
}

#[test]
fn holes_take_no_memory() {
    let size = |ranges: &[Range<u64>]| Arena::<Ranges<Mapped>>::size_for(ranges).unwrap();
    let one = size(&[0..GIANT, 2 * GIANT..2 * GIANT]);
    let two = size(&[0..GIANT, 1 << 45..(1 << 45) + GIANT]);
    assert!(one < 512 * 72 + 10_000, "{one}");
    assert!(two < 2 * 512 * 72 + 36 * 1024 + 10_000, "{two}");
    let small = leaked(one - 1000, 0);
    let made = Arena::over_ranges(Mapped::none(), &[0..GIANT, GIANT..GIANT], small);
    assert_eq!(made.err(), Some(Error::NoMemory));
    let crossed = [GIANT..2 * GIANT, 0..GIANT];
    assert_eq!(
        Arena::<Ranges<Mapped>>::size_for(&crossed),
        Err(Error::Misaligned)
    );
}

#[test]
fn each_processor_has_its_own_frame_cache() {
    let arena = full(Mapped::none(), &ranges());
    let free = arena.free_frames();
    let next = |processor| {
        PROCESSOR.set(processor);
        arena.alloc(0).unwrap()
    };
    let (first, second) = (next(1), next(2));
    // A processor gets the frame it freed last, whatever the other processor does.
    PROCESSOR.set(1);
    // SAFETY: as above.
    unsafe { arena.free(first, 0) };
    assert_ne!(next(2), first);
    assert_eq!(next(1), first);
    assert_ne!(first, second);
    thread::scope(|scope| {
        for processor in 0..4 {
            let arena = &arena;
            scope.spawn(move || {
                PROCESSOR.set(processor);
                for _ in 0..50 {
                    let frames: Vec<_> = (0..100).filter_map(|_| arena.alloc(0)).collect();
                    let all: BTreeSet<_> = frames.iter().collect();
                    assert_eq!(all.len(), frames.len());
                    // SAFETY: as above.
                    frames
                        .iter()
                        .for_each(|&phys| unsafe { arena.free(phys, 0) });
                }
            });
        }
    });
    assert_eq!(arena.free_frames(), free - 3);
}

/// A kernel's memory from end to end: counts and arena in given memory, tables over both.
#[test]
fn tables_come_from_the_largest_range_as_long_as_it_has_frames() {
    let ranges = ranges();
    let arena = full(Mapped::none(), &ranges);
    let largest = (ranges[1].end - ranges[1].start) / PAGE_SIZE;
    let taken: Vec<u64> = (0..largest).map(|_| arena.alloc_table().unwrap()).collect();
    assert!(taken.iter().all(|table| ranges[1].contains(table)));
    let elsewhere = arena.alloc_table().unwrap();
    assert!(!ranges[1].contains(&elsewhere));
    // SAFETY: allocated above and not used since.
    unsafe { arena.free_table(taken[7]) };
    assert_eq!(arena.alloc_table(), Some(taken[7]));
}

#[test]
fn tables_over_ranges_of_physical_memory() {
    let ranges = ranges();
    let arena = full(Mapped::of(&ranges), &ranges);
    let free = arena.free_frames();
    let size = Frames::size_for(&ranges).unwrap();
    let counts = leaked(size, 0);
    let memory = Physical::with_counts(arena, Grace::new(), &ranges, counts).unwrap();
    let memory = Arc::new(memory);
    let start = 0xffff_8000_0000_0000;
    let half = [start..start + PAGE_SIZE, u64::MAX - 1..u64::MAX];
    let kernel = PageTables::<X86_64, _>::new_kernel(memory.clone(), 0, &half).unwrap();
    let parent = PageTables::new_process(&kernel, 1).unwrap();
    let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER;
    let mut at = GIANT;
    while let Ok(block) = memory.alloc_block(9, Kind::Anon) {
        let block = Source::Owned(block);
        parent.map(at, PageSize::Large, block, attrs, &()).unwrap();
        at += LARGE;
    }
    assert!(at > GIANT);
    let mut page = at;
    for _ in 0..500 {
        let frame = Source::Owned(memory.alloc_page(Kind::Anon).unwrap());
        parent
            .map(page, PageSize::Small, frame, attrs, &())
            .unwrap();
        page += PAGE_SIZE;
    }
    let child = PageTables::new_process(&kernel, 2).unwrap();
    parent
        .copy_range(&child, GIANT..at, Mapping::Private, ForkFilter::All, &())
        .unwrap();
    parent.share_range(&child, at..page, &()).unwrap();
    check(&[&kernel, &parent, &child]).unwrap();
    parent.unmap(GIANT..page, &()).unwrap();
    check(&[&kernel, &parent, &child]).unwrap();
    drop((parent, child, kernel));
    memory.reclaim();
    assert_eq!(memory.backing().free_frames() + 1, free);
}
