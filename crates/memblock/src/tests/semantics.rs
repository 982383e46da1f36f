//! Linux's corner cases, one by one.

use std::cell::RefCell;

use super::arena::{Arena, check, storage};
use crate::{
    ALLOC_ANYWHERE, Cursor, Error, Filter, Flags, Kind, Memblock, NodeId, Notice, PAGE_SIZE,
    Region, RegionType,
};

fn region(base: u64, size: u64) -> Region {
    Region {
        base,
        size,
        ..Region::EMPTY
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn layout_is_that_of_linux() {
    use std::mem::{offset_of, size_of};
    assert_eq!(
        (
            size_of::<Region>(),
            offset_of!(Region, size),
            offset_of!(Region, flags),
            offset_of!(Region, nid)
        ),
        (24, 8, 16, 20)
    );
    assert_eq!(size_of::<RegionType>(), 40);
}

#[test]
fn starts_empty() {
    let mut s = storage::<128>();
    let m = Memblock::new(&mut s);
    assert_eq!(
        (m.memory().len(), m.memory().capacity(), m.memory().name()),
        (0, 128, "memory")
    );
    assert_eq!(
        (
            m.reserved().len(),
            m.reserved().capacity(),
            m.reserved().name()
        ),
        (0, 128, "reserved")
    );
    assert_eq!((m.bottom_up(), m.current_limit()), (false, ALLOC_ANYWHERE));
    assert_eq!((m.start_of_dram(), m.end_of_dram()), (0, 0));
}

#[test]
fn sizes_are_capped() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    let base = u64::MAX - 0x10_0000;
    m.add(base, 0x20_0000).unwrap();
    assert_eq!(**m.memory(), [region(base, 0x10_0000)]);
    m.add(u64::MAX, 5).unwrap();
    m.add(0x1000, 0).unwrap();
    assert_eq!(m.memory().len(), 1);
    assert!(!m.is_memory(u64::MAX) && m.is_memory(u64::MAX - 1));
    m.remove(base + 0x1000, u64::MAX).unwrap();
    assert_eq!(**m.memory(), [region(base, 0x1000)]);
    m.remove(0, u64::MAX).unwrap();
    assert_eq!(m.memory().len(), 0);
}

/// The sum of all sizes nearly fills its 64 bits, and must not pass them while a region is being split.
#[test]
fn splitting_nearly_everything() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0, u64::MAX).unwrap();
    m.mark_nomap(0x1000, u64::MAX).unwrap();
    check(&m);
    assert_eq!((m.memory().len(), m.phys_mem_size()), (2, u64::MAX));
    m.remove(0x2000, u64::MAX - 0x4000).unwrap();
    check(&m);
    assert_eq!(m.phys_mem_size(), 0x4000);
}

#[test]
fn what_is_there_keeps_flags_and_node() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add_node(0x2000, 0x1000, NodeId(1), Flags::HOTPLUG)
        .unwrap();
    m.add_node(0x1000, 0x3000, NodeId(0), Flags::NONE).unwrap();
    assert_eq!(
        **m.memory(),
        [
            Region {
                nid: NodeId(0),
                ..region(0x1000, 0x1000)
            },
            Region {
                nid: NodeId(1),
                flags: Flags::HOTPLUG,
                ..region(0x2000, 0x1000)
            },
            Region {
                nid: NodeId(0),
                ..region(0x3000, 0x1000)
            },
        ]
    );
}

#[test]
fn all_ways_of_saying_no_node_are_one() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x1000).unwrap();
    m.add_node(0x2000, 0x1000, NodeId(NodeId::MAX), Flags::NONE)
        .unwrap();
    m.add_node(0x3000, 0x1000, NodeId(-1), Flags::NONE).unwrap();
    assert_eq!(**m.memory(), [region(0x1000, 0x3000)]);
    assert_eq!(
        m.alloc_range_nid(0x1000, 0x1000, 0, 0, NodeId(NodeId::MAX), true),
        Ok(0x3000)
    );
}

#[test]
fn the_first_page_is_never_allocated() {
    for bottom_up in [false, true] {
        let mut s = storage::<8>();
        let mut m = Memblock::new(&mut s);
        m.set_bottom_up(bottom_up);
        m.add(0, 0x2000).unwrap();
        assert_eq!(m.phys_alloc(0x1000, 1), Ok(0x1000));
        assert_eq!(m.phys_alloc(1, 1), Err(Error::NoMemory));
    }
}

#[test]
fn alignment() {
    thread_local!(static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.set_notify(Some(|n| SEEN.with(|s| s.borrow_mut().push(n.to_string()))));
    m.add(0x1000, 0x1010).unwrap();
    assert_eq!(m.phys_alloc(0x20, 0), Ok(0x1fc0), "a cache line");
    assert_eq!(m.phys_alloc(8, 24), Err(Error::Alignment));
    assert_eq!(
        SEEN.take(),
        ["memblock: alignment 0 asked for, cache line size used"]
    );
}

#[test]
fn mirrored_memory_first_then_any_with_a_warning() {
    thread_local!(static SEEN: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) });
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.set_notify(Some(|n| SEEN.with(|s| s.borrow_mut().push(*n))));
    m.add(0x1000, 0x8000).unwrap();
    m.mark_mirror(0x2000, 0x1000).unwrap();
    assert_eq!(m.phys_alloc(0x1000, 1), Ok(0x2000));
    assert_eq!(SEEN.take(), []);
    assert_eq!(m.phys_alloc(0x1000, 1), Ok(0x8000));
    assert_eq!(SEEN.take(), [Notice::NoMirroredMemory { size: 0x1000 }]);
}

/// Node and mirror, then any node and mirror, then the node, then any.
#[test]
fn order_of_fallbacks() {
    let mut s = storage::<16>();
    let mut m = Memblock::new(&mut s);
    for (i, nid) in [0, 0, 1, 1].into_iter().enumerate() {
        m.add_node(0x1000 + i as u64 * 0x1000, 0x1000, NodeId(nid), Flags::NONE)
            .unwrap();
    }
    m.mark_mirror(0x1000, 0x1000).unwrap();
    m.mark_mirror(0x3000, 0x1000).unwrap();
    let got: Vec<_> = (0..5)
        .map(|_| m.phys_alloc_try_nid(0x1000, 1, NodeId(0)))
        .collect();
    assert_eq!(
        got,
        [
            Ok(0x1000),
            Ok(0x3000),
            Ok(0x2000),
            Ok(0x4000),
            Err(Error::NoMemory)
        ]
    );
    m.free(0x1000, 0x4000).unwrap();
    let got: Vec<_> = (0..3)
        .map(|_| m.alloc_range_nid(0x1000, 1, 0, 0, NodeId(0), true))
        .collect();
    assert_eq!(got, [Ok(0x1000), Ok(0x2000), Err(Error::NoMemory)]);
}

#[test]
fn lower_limit_is_dropped_and_current_limit_kept() {
    let arena = Arena::new(0x10_0000, 0x4000);
    let mut s = storage::<8>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.add(arena.base, arena.size).unwrap();
    m.set_current_limit(arena.base + 0x2000);
    let at = |p: Result<core::ptr::NonNull<u8>, Error>| {
        p.map(|p| p.addr().get() as u64 - arena_addr(&arena)).ok()
    };
    assert_eq!(
        at(m.alloc_from(0x1000, 1, arena.base + 0x1000)),
        Some(0x1000)
    );
    assert_eq!(at(m.alloc_from(0x1000, 1, arena.base + 0x1000)), Some(0));
    assert_eq!(
        at(m.alloc_try_nid(0x1000, 1, 0, ALLOC_ANYWHERE, NodeId::NONE)),
        None,
        "cut to the current limit"
    );
    assert_eq!(
        m.phys_alloc_range(0x1000, 1, 0, ALLOC_ANYWHERE),
        Ok(arena.base + 0x3000),
        "not cut"
    );
}

fn arena_addr(arena: &Arena) -> u64 {
    use crate::PhysMap;
    arena.virt(arena.base, 1).unwrap().addr().get() as u64
}

#[test]
fn cleared_unless_raw() {
    use crate::PhysMap;
    let arena = Arena::new(0x10_0000, 0x2000);
    // SAFETY: all of the arena.
    unsafe {
        arena
            .virt(arena.base, arena.size)
            .unwrap()
            .write_bytes(0xaa, 0x2000)
    };
    let mut s = storage::<8>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.add(arena.base, arena.size).unwrap();
    let cleared = m.alloc(0x100, 8).unwrap();
    let raw = m.alloc_raw(0x100, 8).unwrap();
    // SAFETY: both were just allocated.
    unsafe {
        assert_eq!(cleared.cast::<[u8; 0x100]>().read(), [0; 0x100]);
        assert_eq!(raw.cast::<[u8; 0x100]>().read(), [0xaa; 0x100]);
    }
}

/// Memory that cannot be accessed is given back when a pointer to it was asked for.
#[test]
fn inaccessible_memory() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x1000).unwrap();
    assert_eq!(m.alloc(0x100, 8), Err(Error::NoMemory));
    assert_eq!(m.reserved_size(), 0);
}

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
fn regions_of_memory_and_of_reserved() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x1000).unwrap();
    m.add_node(0x2000, 0x1000, NodeId(1), Flags::NONE).unwrap();
    assert!(
        m.is_region_memory(0x1000, 0x1000) && !m.is_region_memory(0x1000, 0x1001),
        "within one region"
    );
    assert!(!m.is_region_memory(0x800, 0x1000));
    m.reserve(0x1000, 0x1000).unwrap();
    assert!(
        m.is_region_reserved(0x800, 0x801)
            && !m.is_region_reserved(0x800, 0x800)
            && !m.is_region_reserved(0x2000, 1)
    );
    assert!(
        m.reserved().overlaps(0x1800, 0),
        "an empty range strictly inside"
    );
    assert!(!m.reserved().overlaps(0x1000, 0));
    assert_eq!(m.search_pfn_nid(2), Some((2, 3, NodeId(1))));
    assert_eq!(m.search_pfn_nid(3), None);
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

#[test]
fn limits() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    let fill = |m: &mut Memblock<'_>| {
        m.clear();
        m.add(0x1000, 0x2000).unwrap();
        m.add_node(0x8000, 0x2000, NodeId::NONE, Flags::NOMAP)
            .unwrap();
        m.add(0xa000, 0x2000).unwrap();
        m.reserve(0x1000, 0x800).unwrap();
        m.reserve(0xa000, 0x800).unwrap();
    };
    let bases = |m: &Memblock<'_>, kind| {
        m.regions(kind)
            .iter()
            .map(|r| (r.base, r.end()))
            .collect::<Vec<_>>()
    };

    fill(&mut m);
    m.enforce_memory_limit(0x3000);
    assert_eq!(
        bases(&m, Kind::Memory),
        [(0x1000, 0x3000), (0x8000, 0x9000)]
    );
    assert_eq!(bases(&m, Kind::Reserved), [(0x1000, 0x1800)]);
    m.enforce_memory_limit(0x10_0000);
    m.enforce_memory_limit(0);
    assert_eq!(m.phys_mem_size(), 0x3000);

    fill(&mut m);
    m.mem_limit_remove_map(0x1000);
    assert_eq!(
        bases(&m, Kind::Memory),
        [(0x1000, 0x2000), (0x8000, 0xa000)]
    );
    assert_eq!(bases(&m, Kind::Reserved), [(0x1000, 0x1800)]);

    fill(&mut m);
    m.cap_memory_range(0x1400, 0x8c00);
    assert_eq!(
        bases(&m, Kind::Memory),
        [(0x1400, 0x3000), (0x8000, 0xa000)]
    );
    assert_eq!(bases(&m, Kind::Reserved), [(0x1400, 0x1800)]);
    check(&m);

    fill(&mut m);
    m.trim_memory(0x2000);
    assert_eq!(
        bases(&m, Kind::Memory),
        [(0x8000, 0xa000), (0xa000, 0xc000)]
    );
    m.trim_memory(0x4000);
    assert_eq!(bases(&m, Kind::Memory), []);
    check(&m);
}

#[test]
fn physical_memory_stays() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.physmem_add(0x1000, 0x8000).unwrap();
    m.add(0x1000, 0x8000).unwrap();
    m.reserve(0x2000, 0x1000).unwrap();
    m.enforce_memory_limit(0x1000);
    assert_eq!(m.physmem().total_size(), 0x8000);
    let free: Vec<_> = m
        .ranges(Kind::Physmem, Some(Kind::Reserved))
        .map(|s| (s.start, s.end))
        .collect();
    assert_eq!(
        free,
        [(0x1000, 0x9000)],
        "the reservation was dropped with its memory"
    );
}

/// As C code walks: the position is packed into 64 bits between calls.
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

/// Reserved regions that touch but differ in nodes have nothing free between them.
#[test]
fn touching_regions_leave_no_empty_piece() {
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
fn both_ends_meet() {
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

#[test]
fn recorded_nodes() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add_node(0x1000, 0x4000, NodeId(3), Flags::NONE).unwrap();
    m.set_record_nodes(true);
    m.phys_alloc_try_nid(0x1000, 1, NodeId(3)).unwrap();
    m.phys_alloc(0x1000, 1).unwrap();
    assert_eq!(
        m.reserved().iter().map(|r| r.nid.0).collect::<Vec<_>>(),
        [-1, 3]
    );
}

/// A static memblock with static storage, as a kernel has it.
#[test]
fn in_a_static() {
    use std::sync::Mutex;

    use crate::{Storage, Unmapped};

    static mut FIRST: Storage = Storage::new();
    // SAFETY: nothing else uses the storage.
    static BOOT: Mutex<Memblock<'static>> =
        Mutex::new(unsafe { Memblock::from_raw_storage(&raw mut FIRST, Unmapped) });
    let mut boot = BOOT.lock().unwrap();
    boot.add(0x1000, 0x1000).unwrap();
    assert_eq!(boot.phys_mem_size(), 0x1000);
}

/// Searching from a guess finds the same as halving, however regions are spread.
#[test]
fn places_are_found_however_regions_are_spread() {
    use crate::array::partition;

    let mut state = 1u64;
    let mut draw = |bits: u32| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state >> (64 - bits)
    };
    for round in 0..if cfg!(miri) { 1 } else { 60 } {
        let n = 256 + draw(10) as usize;
        let mut at = draw(20);
        let mut regions = Vec::new();
        for _ in 0..n {
            // From even to a spread over fifty orders of magnitude of two.
            let order = 1 + (draw(16) as u32 * (round % 50)) / 0x1_0000;
            at = at.saturating_add(draw(order.min(49)) + 1);
            let size = 1 + draw(order.min(12));
            regions.push(region(at, size));
            at += size;
        }
        let ends = [0, regions[0].base, at - 1, at, at + 1, u64::MAX];
        let near: Vec<u64> = (0..200)
            .map(|i| {
                let r = regions[draw(20) as usize % n];
                (if i % 2 == 0 { r.base } else { r.end() })
                    .wrapping_add(draw(2))
                    .wrapping_sub(1)
            })
            .collect();
        for addr in near.into_iter().chain(ends) {
            assert_eq!(
                partition(&regions, addr, |r| r.end() <= addr),
                regions.partition_point(|r| r.end() <= addr)
            );
            assert_eq!(
                partition(&regions, addr, |r| r.end() < addr),
                regions.partition_point(|r| r.end() < addr)
            );
            assert_eq!(
                partition(&regions, addr, |r| r.base < addr),
                regions.partition_point(|r| r.base < addr)
            );
            assert_eq!(
                partition(&regions, addr, |r| r.base <= addr),
                regions.partition_point(|r| r.base <= addr)
            );
        }
    }
}
