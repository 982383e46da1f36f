//! Corner cases of regions, as in Linux: how calls change the arrays, and what queries return.

use super::arena::{check, region, storage};
use crate::{ALLOC_ANYWHERE, Flags, Kind, Memblock, NodeId, Region, RegionType};

#[cfg(target_pointer_width = "64")]
#[test]
fn layout_is_linuxs() {
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

/// The sum of all sizes nearly fills 64 bits, and must not overflow while a region is split.
#[test]
fn splitting_does_not_overflow_the_total() {
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
fn existing_memory_keeps_flags_and_node() {
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
fn all_representations_of_no_node_are_equal() {
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
fn limits_keep_physmem() {
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

/// A static memblock with static storage, as in a kernel.
#[test]
fn memblock_in_a_static() {
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

/// Interpolation finds the same position as bisection, however regions are spread.
#[test]
fn interpolation_agrees_with_bisection() {
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
            // From even spacing to distances that differ by fifty powers of two.
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
