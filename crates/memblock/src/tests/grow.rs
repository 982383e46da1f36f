//! Arrays that move into the memory that they describe.

use super::arena::{Arena, check, snapshot, squeeze, storage};
use crate::{Error, Flags, Kind, Memblock, NodeId, PAGE_SIZE, Region};

#[test]
fn reserved_array_doubles_into_its_own_memory() {
    let arena = Arena::new(0x10_0000, 0x10_000);
    let mut s = storage::<128>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.allow_resize();
    m.add(arena.base, arena.size).unwrap();
    for i in 0..128 {
        m.reserve(0x100_0000 + i * 0x2000, 0x1000).unwrap();
    }
    assert_eq!((m.reserved().len(), m.reserved().capacity()), (128, 128));
    m.reserve(0x100_0000 + 128 * 0x2000, 0x1000).unwrap();
    let array = (256 * size_of::<Region>() as u64).next_multiple_of(PAGE_SIZE);
    assert_eq!((m.reserved().len(), m.reserved().capacity()), (130, 256));
    assert_eq!(m.reserved_size(), 129 * 0x1000 + array);
    assert_eq!(m.reserved()[0].base, arena.end() - array);
    check(&m);
}

#[test]
fn without_permission_nothing_grows() {
    let arena = Arena::new(0x10_0000, 0x10_000);
    let mut s = storage::<1>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.add(arena.base, arena.size).unwrap();
    m.reserve(0x1000, 0x1000).unwrap();
    let before = snapshot(&m);
    assert_eq!(m.reserve(0x4000, 0x1000), Err(Error::ArrayFull));
    assert_eq!(m.reserve(0x1000, 0x800), Ok(()), "already there");
    assert_eq!(snapshot(&m), before);
    assert_eq!(
        m.reserve(0x2000, 0x1000),
        Ok(()),
        "merges, so needs no room"
    );
    assert_eq!(m.free(0x1800, 0x100), Err(Error::ArrayFull));
}

/// The new array must not lie in the range that is being reserved, even if the only space above is
/// there.
#[test]
fn growth_avoids_the_range_being_reserved() {
    let arena = Arena::new(0x10_0000, 0x4000);
    for hole in 0..4 {
        let mut s = storage::<1>();
        let mut m = Memblock::with_map(&mut s, arena.clone());
        m.allow_resize();
        m.add(arena.base, arena.size).unwrap();
        m.reserve(0x1000, 0x1000).unwrap();
        let busy = arena.base + hole * PAGE_SIZE;
        m.reserve(busy, PAGE_SIZE).unwrap();
        check(&m);
        let array = m.grown[Kind::Reserved as usize].base;
        assert!(array + PAGE_SIZE <= busy || busy + PAGE_SIZE <= array);
        assert!(m.is_region_reserved(busy, PAGE_SIZE) && m.is_region_reserved(array, PAGE_SIZE));
        // Memory above is preferred.
        assert_eq!(array > busy, hole < 3);
    }
}

#[test]
fn reserving_all_free_memory_cannot_grow() {
    let arena = Arena::new(0x10_0000, 0x1000);
    let mut s = storage::<1>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.allow_resize();
    m.add(arena.base, arena.size).unwrap();
    m.reserve_node(0x1000, 0x1000, NodeId(1), Flags::NONE)
        .unwrap();
    let before = snapshot(&m);
    assert_eq!(m.reserve(0, 0x10_1000), Err(Error::ArrayFull));
    assert_eq!(snapshot(&m), before);
}

/// An addition over many regions of another node fills the array part-way. The rest is inserted
/// after growing, and nothing is lost, wherever the array was full.
#[test]
fn addition_resumes_after_growth() {
    let arena = Arena::new(0x10_0000, 0x10_000);
    for spare in (0..10).step_by(if cfg!(miri) { 3 } else { 1 }) {
        for kind in [Kind::Memory, Kind::Reserved] {
            let mut s = storage::<40>();
            let mut m = Memblock::with_map(&mut s, arena.clone());
            m.allow_resize();
            for i in 0..8 {
                m.add_range(kind, 0x1000 + i * 0x2000, 0x1000, Flags::NONE, NodeId(1))
                    .unwrap();
            }
            m.add(arena.base, arena.size).unwrap();
            squeeze(&mut m);
            let n = m.regions(kind).len();
            m.array(kind).set_capacity(n + spare);
            m.add_range(kind, 0, 0x12000, Flags::NONE, NodeId::NONE)
                .unwrap();
            check(&m);
            let low: Vec<_> = m
                .regions(kind)
                .iter()
                .filter(|r| r.base < arena.base)
                .collect();
            assert_eq!(low.len(), 17);
            assert_eq!(low.iter().map(|r| r.size).sum::<u64>(), 0x12000);
            assert_eq!(
                m.regions(kind).as_ptr() != m.first_storage(kind).0,
                spare < 9,
                "{spare} {kind}"
            );
        }
    }
}

/// The reserved range covers the memory of the old array, which must stay reserved.
#[test]
fn old_array_in_the_reserved_range_stays_reserved() {
    let arena = Arena::new(0x10_0000, 0x10_000);
    let start = arena.base + 0x4000;
    for extra in 0..6 {
        let mut s = storage::<1>();
        let mut m = Memblock::with_map(&mut s, arena.clone());
        m.allow_resize();
        m.add(arena.base, arena.size).unwrap();
        m.reserve(0x1000, 0x1000).unwrap();
        m.reserve_node(0x3000, 0x1000, NodeId(1), Flags::NONE)
            .unwrap();
        let old = m.grown[Kind::Reserved as usize].base;
        assert_eq!(old + 0x1000, arena.end());
        for i in 0..extra {
            m.reserve_node(start + i * 0x400, 0x100, NodeId(2), Flags::NONE)
                .unwrap();
        }
        squeeze(&mut m);
        m.reserve_node(start, arena.end() - start, NodeId(1), Flags::NONE)
            .unwrap();
        check(&m);
        assert_ne!(m.grown[Kind::Reserved as usize].base, old);
        for at in (start..arena.end()).step_by(0x100) {
            assert!(
                m.is_reserved(at),
                "{at:#x} with {extra}: {:?}",
                m.reserved()
            );
        }
    }
}

#[test]
fn old_arrays_are_freed() {
    let arena = Arena::new(0x10_0000, 0x40_000);
    let mut s = storage::<1>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.allow_resize();
    // The memory added below is not accessible.
    m.set_current_limit(arena.end());
    m.add(arena.base, arena.size).unwrap();
    let n = if cfg!(miri) { 40 } else { 1000 };
    for i in 0..n {
        m.add(0x100_0000 + i * 0x2000, 0x1000).unwrap();
        m.reserve(0x200_0000 + i * 0x2000, 0x1000).unwrap();
        check(&m);
    }
    let arrays: u64 = m
        .reserved()
        .iter()
        .filter(|r| r.base < arena.end())
        .map(|r| r.size)
        .sum();
    let needed = |kind| (m.regions(kind).capacity() * size_of::<Region>()) as u64;
    assert_eq!(
        arrays,
        [Kind::Memory, Kind::Reserved]
            .map(|k| needed(k).next_multiple_of(PAGE_SIZE))
            .iter()
            .sum()
    );
}

/// C code may undo its own test: it restores the pointer, and the grown array is forgotten.
#[test]
fn array_replaced_from_outside() {
    let arena = Arena::new(0x10_0000, 0x10_000);
    let mut s = storage::<1>();
    let mut m = Memblock::with_map(&mut s, arena.clone());
    m.allow_resize();
    for _ in 0..3 {
        m.add(arena.base, arena.size).unwrap();
        m.reserve(0x1000, 0x1000).unwrap();
        m.reserve(0x3000, 0x1000).unwrap();
        assert_eq!(m.reserved().len(), 3);
        let (first, max) = m.first_storage(Kind::Reserved);
        m.array(Kind::Reserved).clear();
        // SAFETY: this is the first storage, and there are no regions to move.
        unsafe { m.array(Kind::Reserved).relocate(first, max) };
        check(&m);
    }
}
