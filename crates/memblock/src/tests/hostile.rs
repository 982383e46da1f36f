//! Invalid arguments: ranges that wrap, sizes of 2^64 − 1, positions that no walk had, unsorted
//! arrays. Nothing panics or loops for ever, and a call that fails has changed nothing.

use std::ops::Range;

use super::arena::{check, region, snapshot, storage};
use crate::{Cursor, Error, Filter, Flags, Kind, Memblock, NodeId, PageAllocator, Region, Spans};

const EDGES: [u64; 12] = [
    0,
    1,
    0xfff,
    0x1000,
    0x1001,
    0x3000,
    u64::MAX / 2,
    1 << 63,
    u64::MAX - 0x1fff,
    u64::MAX - 0xfff,
    u64::MAX - 1,
    u64::MAX,
];

const CALLS: usize = 20;

/// Returns the cases to try of `all`: every n-th under Miri, and all otherwise.
fn every_nth_under_miri<T>(all: impl IntoIterator<Item = T>, n: usize) -> impl Iterator<Item = T> {
    all.into_iter().step_by(if cfg!(miri) { n } else { 1 })
}

/// Performs a call with two numbers. Its only error is that of a full array.
fn call(m: &mut Memblock<'_>, which: usize, a: u64, b: u64) -> Result<(), Error> {
    let nid = NodeId(b as i32);
    match which {
        0 => m.add(a, b),
        1 => m.add_node(a, b, nid, Flags::from_bits_retain(a as u32)),
        2 => m.remove(a, b),
        3 => m.reserve(a, b),
        4 => m.reserve_kern(a, b),
        5 => m.reserve_node(a, b, nid, Flags::all()),
        6 => m.free(a, b),
        7 => m.physmem_add(a, b),
        8 => m.mark_nomap(a, b),
        9 => m.clear_nomap(a, b),
        10 => m.mark_mirror(a, b),
        11 => m.set_node(a, b, Kind::Memory, nid),
        12 => m.set_node(a, b, Kind::Reserved, NodeId(i32::MIN)),
        13 => m.reserved_mark_noinit(a, b),
        14 => {
            m.trim_memory(a);
            Ok(())
        }
        15 => {
            m.cap_memory_range(a, b);
            Ok(())
        }
        16 => {
            m.enforce_memory_limit(a);
            Ok(())
        }
        17 => {
            m.mem_limit_remove_map(a);
            Ok(())
        }
        18 => m.mark_kho_scratch(a, b),
        _ => {
            let got = m.alloc_range_nid(a, 1, b, u64::MAX, nid, a > b);
            match got {
                Err(Error::NoMemory) => Ok(()),
                other => other.map(|_| ()),
            }
        }
    }
}

/// Performs each query with two numbers. The answers about frames agree with each other.
fn query(m: &Memblock<'_>, a: u64, b: u64) {
    let _ = (m.is_memory(a), m.is_map_memory(a), m.is_reserved(a));
    let _ = (m.is_region_memory(a, b), m.is_region_reserved(a, b));
    let _ = (
        m.search_pfn_nid(a),
        m.reserved_kern_size(a, NodeId(b as i32)),
    );
    assert!(m.estimated_nr_free_pages() <= 1 << 52);
    if let Some(at) = m.find_in_range(a, u64::MAX, b, 0x1000) {
        assert!(at % 0x1000 == 0 && at >= a);
    }
    let sum = |frames: &mut dyn Iterator<Item = crate::Span>| -> u64 {
        frames.map(|f| f.end - f.start).sum()
    };
    let free = sum(&mut m.free_frames(NodeId::NONE));
    assert_eq!(free, sum(&mut m.free_frames(NodeId::NONE).rev()));
    assert!(sum(&mut m.frames_taken_by(a, b)) <= free);
    assert!(sum(&mut m.frames_freed_by(a, b)) <= (1 << 52) - free);
    for f in m.free_frames(NodeId::NONE).within(a..b) {
        assert!(a <= f.start && f.start < f.end && f.end <= b);
    }
    for kind in Kind::ALL {
        for without in [None, Some(Kind::Memory), Some(Kind::Reserved)] {
            for s in m.ranges(kind, without).within(a..b) {
                assert!(a <= s.start && s.start < s.end && s.end <= b);
            }
        }
    }
}

#[test]
fn extreme_numbers() {
    for first in every_nth_under_miri(0..CALLS, 6) {
        for second in every_nth_under_miri(0..CALLS, 7) {
            let mut s = storage::<8>();
            let mut m = Memblock::new(&mut s);
            for a in every_nth_under_miri(EDGES, 5) {
                for b in every_nth_under_miri(EDGES, 5) {
                    for (which, a, b) in [(first, a, b), (second, b, a)] {
                        let before = snapshot(&m);
                        match call(&mut m, which, a, b) {
                            Ok(()) => {}
                            Err(error) => {
                                assert_eq!(error, Error::ArrayFull);
                                assert_eq!(snapshot(&m), before);
                            }
                        }
                        check(&m);
                        query(&m, a, b);
                    }
                }
            }
        }
    }
}

/// Accepts all frames, and refuses to give any back.
struct Sink(u64);

impl PageAllocator for Sink {
    fn free_pages(&mut self, frames: Range<u64>) {
        assert!(frames.start < frames.end);
        self.0 += frames.end - frames.start;
    }
}

#[test]
fn extreme_numbers_after_release() {
    for a in every_nth_under_miri(EDGES, 5) {
        for b in every_nth_under_miri(EDGES, 4) {
            let mut s = storage::<3>();
            let mut m = Memblock::new(&mut s);
            m.add(0x800, u64::MAX).unwrap();
            m.reserve(0x2000, 0x1800).unwrap();
            m.reserve(u64::MAX - 0x1800, u64::MAX).unwrap();
            let all = m.memory().first().map(Region::memory_frames).unwrap();
            let mut sink = Sink(0);
            let (mut late, count) = m.release(&mut sink);
            assert_eq!(count, sink.0);
            let taken = late.frames_taken_by(a, b).next().is_some();
            match late.reserve_late(a, b, &mut sink) {
                Ok(()) => assert!(!taken),
                Err(error) => assert!(taken && error == Error::NoMemory),
            }
            assert_eq!(sink.0, count);
            late.free_late(a, b, &mut sink).unwrap();
            check(&late);
            late.free_late(0, u64::MAX, &mut sink).unwrap();
            assert_eq!(sink.0, all.end - all.start);
            assert_eq!(late.reserved_size(), 0);
        }
    }
}

/// Unsorted arrays, with regions that are empty or wrap, and positions anywhere.
#[test]
fn walks_over_invalid_arrays_end() {
    let mut state = 3u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % n
    };
    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
        let mut array = || -> Vec<Region> {
            (0..draw(6))
                .map(|_| {
                    let base = EDGES[draw(12) as usize].wrapping_add(draw(3));
                    region(base, EDGES[draw(12) as usize])
                })
                .collect()
        };
        let (a, b) = (array(), array());
        let b = (draw(4) > 0).then_some(&b[..]);
        let limit = (a.len() + 2) * (b.map_or(0, <[Region]>::len) + 2);
        let window = EDGES[draw(12) as usize]..EDGES[draw(12) as usize];
        let spans = Spans::new(&a, b, Filter::ALL);
        assert!(spans.clone().count() <= limit && spans.clone().rev().count() <= limit);
        assert!(spans.clone().within(window.clone()).count() <= limit);
        assert!(spans.within(window).rev().count() <= limit);
        let packed = draw(8) << 32 << draw(32) | draw(8) << draw(32);
        for up in [true, false] {
            let mut at = Cursor::unpack(packed);
            let mut steps = 0;
            while let Some(span) = if up {
                at.next(&a, b, &Filter::ALL)
            } else {
                at.next_back(&a, b, &Filter::ALL)
            } {
                at = Cursor::unpack(at.pack());
                steps += 1;
                assert!(steps <= limit, "{span:?}");
            }
        }
    }
}
