//! Walks over ranges and page frames: what they skip, and how they resume.

use super::arena::{region, storage};
use crate::{Cursor, Filter, Flags, Memblock, NodeId, PAGE_SIZE};

#[test]
fn special_memory_is_skipped() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x1000).unwrap();
    m.add_node(0x2000, 0x1000, NodeId::NONE, Flags::NOMAP)
        .unwrap();
    m.add_node(0x3000, 0x1000, NodeId::NONE, Flags::DRIVER_MANAGED)
        .unwrap();
    m.add_node(0x4000, 0x1000, NodeId::NONE, Flags::HOTPLUG)
        .unwrap();
    let starts = |m: &Memblock<'_>, flags| {
        m.free_ranges(NodeId::NONE, flags)
            .map(|s| s.start)
            .collect::<Vec<_>>()
    };
    assert_eq!(starts(&m, Flags::NONE), [0x1000, 0x4000]);
    m.set_movable_node(true);
    assert_eq!(starts(&m, Flags::NONE), [0x1000]);
    assert_eq!(
        starts(&m, Flags::HOTPLUG | Flags::NOMAP),
        [0x1000, 0x2000, 0x4000]
    );
    assert_eq!(
        starts(&m, Filter::ALL.flags),
        [0x1000, 0x2000, 0x3000, 0x4000]
    );
    assert_eq!(starts(&m, Flags::MIRROR), []);
}

#[test]
fn page_frames_are_rounded_inwards() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x0800, 0x2000).unwrap();
    m.add_node(0x3800, 0x0a00, NodeId(1), Flags::NONE).unwrap();
    m.add_node(0x5000, 0x1000, NodeId(1), Flags::NONE).unwrap();
    let ranges = |n| {
        m.pfn_ranges(n)
            .map(|s| (s.start, s.end))
            .collect::<Vec<_>>()
    };
    assert_eq!(ranges(NodeId::NONE), [(1, 2), (5, 6)]);
    assert_eq!(ranges(NodeId(1)), [(5, 6)]);
    assert!(m.validate_numa_coverage(PAGE_SIZE) && !m.validate_numa_coverage(PAGE_SIZE - 1));
}

/// Walks as in C code: the position is packed into 64 bits between calls.
#[test]
fn packed_positions() {
    let a = [region(0x1000, 0x4000), region(0x8000, 0x1000)];
    let b = [region(0x2000, 0x1000), region(0x4800, 0x4000)];
    let mut seen = Vec::new();
    let mut packed = 0;
    loop {
        let mut at = Cursor::unpack(packed);
        let Some(span) = at.next(&a, Some(&b), &Filter::ALL) else {
            break;
        };
        packed = at.pack();
        seen.push((span.start, span.end, packed));
    }
    assert_eq!(
        seen,
        [
            (0x1000, 0x2000, 1 << 32),
            (0x3000, 0x4800, 2 << 32),
            (0x8800, 0x9000, 2 | 2 << 32)
        ]
    );

    let mut at = Cursor::top(&a, Some(&b));
    let mut back = Vec::new();
    while let Some(span) = at.next_back(&a, Some(&b), &Filter::ALL) {
        at = Cursor::unpack(at.pack());
        back.push((span.start, span.end));
    }
    assert_eq!(back, [(0x8800, 0x9000), (0x3000, 0x4800), (0x1000, 0x2000)]);
}

/// Reserved regions that touch but differ in nodes have no free memory between them.
#[test]
fn touching_regions_leave_no_empty_span() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x9000).unwrap();
    m.reserve_node(0x2000, 0x1000, NodeId(0), Flags::NONE)
        .unwrap();
    m.reserve_node(0x3000, 0x1000, NodeId(1), Flags::NONE)
        .unwrap();
    let free = m.free_ranges(NodeId::NONE, Flags::NONE);
    let pieces = [0x1000..0x2000, 0x4000..0xa000];
    assert!(free.clone().map(|s| s.start..s.end).eq(pieces.clone()));
    assert!(
        free.rev()
            .map(|s| s.start..s.end)
            .eq(pieces.into_iter().rev())
    );
}

#[test]
fn iteration_from_both_ends_meets() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x9000).unwrap();
    for i in 0..4 {
        m.reserve(0x2000 + i * 0x2000, 0x1000).unwrap();
    }
    let mut spans = m.free_ranges(NodeId::NONE, Flags::NONE);
    let mut order = Vec::new();
    while let Some(front) = spans.next() {
        order.push(front.start);
        let Some(back) = spans.next_back() else { break };
        order.push(back.start);
    }
    assert_eq!(order, [0x1000, 0x9000, 0x3000, 0x7000, 0x5000]);
    assert_eq!((spans.next(), spans.next_back()), (None, None));
}
