//! The release of free memory to a page allocator.

use std::collections::BTreeSet;
use std::ops::Range;

use super::arena::{Arena, storage};
use crate::{Error, Flags, Memblock, NodeId, PAGE_SIZE, PageAllocator, PageBlocks};

/// A page allocator that records its frames, and fails if it gets one twice.
#[derive(Default)]
struct Frames {
    free: BTreeSet<u64>,
}

impl PageAllocator for Frames {
    fn free_pages(&mut self, frames: Range<u64>) {
        assert!(!frames.is_empty());
        for frame in frames {
            assert!(self.free.insert(frame), "frame {frame} given twice");
        }
    }

    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let all = frames.clone().all(|f| self.free.contains(&f));
        if all {
            frames.for_each(|f| assert!(self.free.remove(&f)));
        }
        all
    }
}

#[test]
fn only_whole_free_frames_are_released() {
    let mut s = storage::<16>();
    let mut m = Memblock::new(&mut s);
    m.add(0x800, 0x7000).unwrap();
    m.add_node(0x10_000, 0x2000, NodeId(1), Flags::HOTPLUG)
        .unwrap();
    m.add_node(0x20_000, 0x2000, NodeId(1), Flags::NOMAP)
        .unwrap();
    m.add_node(0x30_000, 0x2000, NodeId(1), Flags::DRIVER_MANAGED)
        .unwrap();
    m.reserve(0x2ff0, 0x20).unwrap();
    let mut frames = Frames::default();
    let (released, count) = m.release(&mut frames);
    assert_eq!(frames.free, BTreeSet::from([1, 4, 5, 6, 0x10, 0x11]));
    assert_eq!(count, 6);
    assert!(!released.memory().any_with(Flags::HOTPLUG));
}

#[test]
fn late_reserve_and_free() {
    let mut s = storage::<4>();
    let mut m = Memblock::new(&mut s);
    m.add(0, 0x10_000).unwrap();
    m.reserve(0x4000, 0x3000).unwrap();
    let mut frames = Frames::default();
    let (mut late, _) = m.release(&mut frames);

    assert_eq!(late.free_late(0x4800, 0x2000, &mut frames), Ok(1));
    assert!(frames.free.contains(&5) && !frames.free.contains(&4) && !frames.free.contains(&6));
    assert_eq!(
        late.free_late(0x5000, 0x1000, &mut frames),
        Ok(0),
        "not reserved any more"
    );

    assert_eq!(late.reserve_late(0x8800, 0x1000, &mut frames), Ok(()));
    assert!(!frames.free.contains(&8) && !frames.free.contains(&9) && frames.free.contains(&10));
    let before = frames.free.clone();
    frames.free.remove(&12);
    assert_eq!(
        late.reserve_late(0xa000, 0x4000, &mut frames),
        Err(Error::NoMemory),
        "frame 12 is in use"
    );
    frames.free.insert(12);
    assert_eq!(frames.free, before);
    assert_eq!(late.reserve_late(0, 0, &mut frames), Ok(()));

    assert_eq!(late.reserve_late(0xc000, 0x1000, &mut frames), Ok(()));
    let before = frames.free.clone();
    assert_eq!(
        late.reserve_late(0xe000, 0x1000, &mut frames),
        Err(Error::ArrayFull)
    );
    assert_eq!(
        late.free_late(0x8c00, 0x100, &mut frames),
        Err(Error::ArrayFull)
    );
    assert_eq!(frames.free, before);
}

#[test]
fn a_frame_freed_in_two_parts_is_released_once() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0, 0x10_000).unwrap();
    m.reserve(0x4000, 0x1000).unwrap();
    let mut frames = Frames::default();
    let (mut late, _) = m.release(&mut frames);
    assert_eq!(late.free_late(0x4000, 0x800, &mut frames), Ok(0));
    assert_eq!(late.free_late(0x4800, 0x800, &mut frames), Ok(1));
    assert!(frames.free.contains(&4));
}

#[test]
fn a_frame_in_two_reserved_regions_is_released_once() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0, 0x10_000).unwrap();
    m.reserve_node(0x4000, 0x800, NodeId(0), Flags::NONE)
        .unwrap();
    m.reserve_node(0x4800, 0x400, NodeId(1), Flags::NONE)
        .unwrap();
    m.reserve(0x4e00, 0x1000).unwrap();
    let mut frames = Frames::default();
    let (mut late, _) = m.release(&mut frames);
    assert_eq!(late.free_late(0x4000, 0x1e00, &mut frames), Ok(2));
    assert_eq!(late.reserved_size(), 0);
}

#[test]
fn freeing_nothing_late_needs_no_capacity() {
    let mut s = storage::<1>();
    let mut m = Memblock::new(&mut s);
    m.add(0, 0x10_000).unwrap();
    m.reserve(0x4000, 0x2000).unwrap();
    let mut frames = Frames::default();
    let (mut late, _) = m.release(&mut frames);
    assert_eq!(late.free_late(0x5000, 0, &mut frames), Ok(0));
    assert_eq!(late.free_late(u64::MAX, u64::MAX, &mut frames), Ok(0));
    assert_eq!(late.free_late(0, u64::MAX, &mut frames), Ok(2));
}

/// The allocator learns the node of its frames.
#[test]
fn nodes_are_passed_to_the_allocator() {
    struct Nodes(Vec<(Range<u64>, NodeId)>);
    impl PageAllocator for Nodes {
        fn free_pages(&mut self, _: Range<u64>) {
            unreachable!()
        }
        fn free_node_pages(&mut self, frames: Range<u64>, nid: NodeId) {
            self.0.push((frames, nid));
        }
    }
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add_node(0x1000, 0x2000, NodeId(0), Flags::NONE).unwrap();
    m.add_node(0x3000, 0x2000, NodeId(1), Flags::NONE).unwrap();
    m.reserve(0x2000, 0x2000).unwrap();
    let mut nodes = Nodes(Vec::new());
    let (mut late, _) = m.release(&mut nodes);
    late.free_late(0, u64::MAX, &mut nodes).unwrap();
    let (n0, n1) = (NodeId(0), NodeId(1));
    assert_eq!(nodes.0, [(1..2, n0), (4..5, n1), (2..3, n0), (3..4, n1)]);
}

/// Random histories after the release. The page allocator owns exactly the free frames, whatever is
/// freed, reserved and refused.
#[test]
fn page_allocator_owns_exactly_the_free_frames() {
    let mut state = 7u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % n
    };
    const UNITS: usize = 160;
    const UNIT: u64 = 0x400;
    for round in 0..if cfg!(miri) { 3 } else { 400 } {
        // For each unit: its memory region, if it may be handed out, and `true` if it is reserved.
        let (mut memory, mut reserved) = (vec![None; UNITS], vec![false; UNITS]);
        let mut s = storage::<24>();
        let mut m = Memblock::new(&mut s);
        for i in 0..6 {
            let (from, len) = (draw(UNITS as u64), draw(40) + 1);
            let to = (from + len).min(UNITS as u64);
            let flags = [Flags::NONE, Flags::NONE, Flags::HOTPLUG, Flags::NOMAP][draw(4) as usize];
            if memory[from as usize..to as usize]
                .iter()
                .all(|u| u.is_none())
                && m.add_node(from * UNIT, (to - from) * UNIT, NodeId(i), flags)
                    .is_ok()
            {
                memory[from as usize..to as usize].fill(Some((i, flags != Flags::NOMAP)));
            }
        }
        let mut frames = Frames::default();
        let step = |late: Option<&mut crate::Released<'_, crate::Unmapped>>,
                    frames: &mut Frames,
                    reserved: &[bool]| {
            let expected: BTreeSet<u64> = (0..UNITS as u64 / 4)
                .filter(|f| {
                    let units = *f as usize * 4..*f as usize * 4 + 4;
                    let first = memory[units.start];
                    first.is_some_and(|(_, given)| given)
                        && memory[units.clone()].iter().all(|u| *u == first)
                        && !reserved[units].contains(&true)
                })
                .collect();
            if let Some(late) = late {
                let free: BTreeSet<u64> = late
                    .free_frames(NodeId::NONE)
                    .flat_map(|s| s.start..s.end)
                    .collect();
                assert_eq!(free, expected);
            }
            assert_eq!(frames.free, expected, "round {round}");
        };
        for _ in 0..8 {
            let (from, to) = (draw(UNITS as u64), draw(UNITS as u64));
            if from < to && to - from < 30 {
                m.reserve(from * UNIT, (to - from) * UNIT).unwrap();
                reserved[from as usize..to as usize].fill(true);
            }
        }
        let count_before: u64 = m.free_frames(NodeId::NONE).map(|s| s.end - s.start).sum();
        let (mut late, count) = m.release(&mut frames);
        assert!(count >= count_before);
        step(Some(&mut late), &mut frames, &reserved);
        for _ in 0..40 {
            let from = draw(UNITS as u64);
            let to = (from + draw(24)).min(UNITS as u64);
            let (base, size) = (from * UNIT, (to - from) * UNIT);
            let units = from as usize..to as usize;
            let before = frames.free.len() as u64;
            if draw(2) == 0 {
                let told: u64 = late
                    .frames_freed_by(base, size)
                    .map(|s| s.end - s.start)
                    .sum();
                match late.free_late(base, size, &mut frames) {
                    Ok(n) => {
                        reserved[units].fill(false);
                        assert_eq!((n, before + n), (told, frames.free.len() as u64));
                    }
                    Err(error) => assert_eq!(error, Error::ArrayFull),
                }
            } else {
                // Some frames are in use.
                let in_use = frames.free.iter().copied().nth(draw(64) as usize);
                let hit = in_use.is_some_and(|f| {
                    frames.free.remove(&f);
                    units.start < f as usize * 4 + 4
                        && f as usize * 4 < units.end
                        && !units.is_empty()
                });
                match late.reserve_late(base, size, &mut frames) {
                    Ok(()) => {
                        assert!(!hit);
                        reserved[units].fill(true);
                    }
                    Err(Error::NoMemory) => assert!(hit),
                    Err(error) => assert_eq!(error, Error::ArrayFull),
                }
                if let Some(f) = in_use {
                    frames.free.insert(f);
                }
            }
            super::arena::check(&late);
            step(Some(&mut late), &mut frames, &reserved);
        }
    }
}

#[test]
fn arrays_are_discarded() {
    let arena = Arena::new(0x10_0000, 0x8000);
    let mut s = storage::<1>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.allow_resize();
    m.add(arena.base, arena.size).unwrap();
    m.add(0x1000, 0x1000).unwrap();
    m.reserve(0x1000, 0x1000).unwrap();
    m.reserve(0x3000, 0x1000).unwrap();
    let mut frames = Frames::default();
    let (released, count) = m.release(&mut frames);
    assert_eq!(
        count + released.discard(&mut frames),
        arena.size / PAGE_SIZE
    );
    assert_eq!(frames.free.len() as u64, arena.size / PAGE_SIZE);
}

#[test]
fn blocks_are_aligned_and_cover() {
    for (start, end) in [
        (0, 1),
        (0, 1 << 20),
        (5, 5),
        (1, 1000),
        (u64::MAX - 5, u64::MAX),
    ] {
        let mut at = start;
        for (first, order) in PageBlocks::new(start..end, 10) {
            assert_eq!(first, at);
            assert!(order <= 10 && first % (1 << order) == 0);
            at += 1 << order;
        }
        assert_eq!(at, end);
    }
}

#[cfg(feature = "buddy_system_allocator")]
#[test]
fn release_to_a_buddy_allocator() {
    let mut s = storage::<16>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x20_000).unwrap();
    m.reserve(0x8000, 0x4000).unwrap();
    let mut buddy = buddy_system_allocator::FrameAllocator::<33>::new();
    let (mut late, count) = m.release(&mut buddy);
    late.reserve_late(0x2000, 0x3000, &mut buddy).unwrap();
    assert_eq!(late.reserve_late(0x1000, 0x1000, &mut buddy), Ok(()));
    let mut seen = BTreeSet::new();
    while let Some(frame) = buddy.alloc(1) {
        let at = frame as u64 * PAGE_SIZE;
        assert!(late.is_memory(at) && !late.is_reserved(at) && seen.insert(frame));
    }
    assert_eq!(seen.len() as u64, count - 4);
    assert_eq!(late.free_late(0x8000, 0x4000, &mut buddy), Ok(4));
    assert_eq!(buddy.alloc(4), Some(8));
}
