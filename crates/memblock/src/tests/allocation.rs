//! Corner cases of allocation, as in Linux.

use std::cell::RefCell;

use super::arena::{Arena, storage};
use crate::{ALLOC_ANYWHERE, Error, Flags, Memblock, NodeId, Notice};

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
fn alignment_is_kept() {
    thread_local!(static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.set_notify(Some(|n| SEEN.with(|s| s.borrow_mut().push(n.to_string()))));
    m.add(0x1000, 0x1010).unwrap();
    assert_eq!(m.phys_alloc(0x20, 0), Ok(0x1fc0), "a cache line");
    assert_eq!(m.phys_alloc(8, 24), Err(Error::Alignment));
    assert_eq!(
        SEEN.take(),
        ["memblock: alignment 0 requested, using the cache line size"]
    );
}

#[test]
fn mirrored_memory_is_preferred() {
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

/// Node and mirror, then any node and mirror, then the node, then any node.
#[test]
fn fallbacks_keep_their_order() {
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
fn lower_limit_is_dropped_and_current_limit_is_kept() {
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
fn memory_is_cleared_unless_raw() {
    use crate::PhysMap;
    let arena = Arena::new(0x10_0000, 0x2000);
    // SAFETY: this is the whole arena.
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

/// Inaccessible memory is freed again if a pointer to it was requested.
#[test]
fn inaccessible_memory_is_freed_again() {
    let mut s = storage::<8>();
    let mut m = Memblock::new(&mut s);
    m.add(0x1000, 0x1000).unwrap();
    assert_eq!(m.alloc(0x100, 8), Err(Error::NoMemory));
    assert_eq!(m.reserved_size(), 0);
}

#[test]
fn nodes_are_recorded_on_request() {
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
