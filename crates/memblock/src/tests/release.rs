//! Handing over.

use std::collections::BTreeSet;
use std::ops::Range;

use super::arena::{Arena, storage};
use crate::{Error, Flags, Memblock, NodeId, PAGE_SIZE, PageAllocator, PageBlocks};

/// Knows which frames it has, and minds being given one twice.
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
fn into_the_buddy_allocator() {
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
