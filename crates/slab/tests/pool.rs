//! Tests of pools and reserves at several node sizes: what they allocate, what they cost, and how
//! they pass on failures and show leaks.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::Arc;

use samara_slab::{
    AllocError, Counted, Fork, Global, NodeAlloc, NodeBatch, Pool, Reserve, SharedPool,
};

const NODE: Layout = Pool::<Global, 256>::BLOCK;

const MANY: usize = if cfg!(miri) { 60 } else { 20_000 };

/// A node filled with a byte that depends on its address.
struct Marked(NonNull<u8>, usize);

impl Marked {
    fn new(node: NonNull<u8>, layout: Layout) -> Self {
        let byte = (node.addr().get() >> 4) as u8;
        // SAFETY: the node has this layout and belongs to the test.
        unsafe { node.as_ptr().write_bytes(byte, layout.size()) };
        Self(node, layout.size())
    }

    fn holds(&self) -> bool {
        let byte = (self.0.addr().get() >> 4) as u8;
        // A pool that writes to an allocated node would write its links, or beyond the end of
        // another node.
        let ends = (0..16).chain([self.1 - 1]);
        // SAFETY: as above.
        ends.into_iter()
            .all(|i| unsafe { self.0.as_ptr().add(i).read() } == byte)
    }
}

/// Allocates nodes one by one and in runs, and frees others in between. No node is allocated twice,
/// all are aligned, and none is written while it is allocated.
fn disjoint(pool: &impl NodeAlloc, layout: Layout) {
    let mut out: HashSet<usize> = HashSet::new();
    let mut nodes: Vec<Marked> = Vec::new();
    let mut seed = 1_u64;
    for step in 0..if cfg!(miri) { 25 } else { 3_000 } {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        let had = nodes.len();
        let random = (seed >> 40) as usize;
        let mut take = |run: NonNull<u8>, count: usize| {
            // SAFETY: the run is this long.
            let run = (0..count).map(|i| unsafe { run.add(i * layout.size()) });
            nodes.extend(run.map(|node| Marked::new(node, layout)));
        };
        match (seed >> 33) % 6 {
            0 => {
                let count = random % 40 + 1;
                // `None` if as many nodes have been freed.
                if let Some(run) = pool.allocate_run(layout, count) {
                    take(run, count);
                }
            }
            1 => assert!(pool.allocate_many(layout, random % 20, &mut take)),
            2 | 3 => take(pool.allocate(layout).unwrap(), 1),
            _ => {
                if !nodes.is_empty() {
                    let node = nodes.swap_remove(random % nodes.len());
                    assert!(node.holds());
                    assert!(out.remove(&node.0.addr().get()));
                    // SAFETY: it came from the pool, and is not used again.
                    unsafe { pool.deallocate(node.0, layout) };
                }
                continue;
            }
        }
        for node in &nodes[had..] {
            let at = node.0.addr().get();
            assert!(out.insert(at), "a node was handed out twice");
            assert_eq!(at % layout.align(), 0, "step {step}");
        }
    }
    let mut ends: Vec<usize> = out.into_iter().collect();
    ends.sort_unstable();
    assert!(ends.windows(2).all(|two| two[1] - two[0] >= layout.size()));
    for node in nodes {
        assert!(node.holds());
        // SAFETY: as above.
        unsafe { pool.deallocate(node.0, layout) };
    }
}

fn disjoint_at<const SIZE: usize>() {
    let slabs = Counted::new(Global);
    let layout = Pool::<Global, SIZE>::BLOCK;
    assert_eq!(layout.size(), SIZE);
    disjoint(&Pool::<_, SIZE>::new_in(&slabs), layout);
    assert_eq!(slabs.live(), 0);
    disjoint(&SharedPool::<_, SIZE>::new_in(&slabs), layout);
    assert_eq!(slabs.live(), 0);
    disjoint(&Counted::new(Pool::<_, SIZE>::new_in(&slabs)), layout);
    assert_eq!(slabs.live(), 0);
}

#[test]
fn nodes_are_handed_out_once() {
    disjoint_at::<16>();
    disjoint_at::<320>();
    if cfg!(not(miri)) {
        disjoint_at::<48>();
        disjoint_at::<256>();
        disjoint_at::<4096>();
    }
}

#[test]
fn nodes_are_aligned_to_the_power_of_two_in_their_size() {
    assert_eq!(Pool::<Global, 16>::BLOCK.align(), 16);
    assert_eq!(Reserve::<48>::BLOCK.align(), 16);
    assert_eq!(SharedPool::<Global, 320>::BLOCK.align(), 64);
    assert_eq!(Pool::<Global, 4096>::BLOCK.align(), 4096);
}

#[test]
fn other_layouts_pass_through() {
    let source = Counted::new(Global);
    let pool = Pool::<_, 256>::new_in(&source);
    let layout = Layout::new::<u64>();
    let block = pool.allocate(layout).unwrap();
    assert_eq!((source.live(), pool.bytes()), (1, 0));
    // SAFETY: it came from the pool.
    unsafe { pool.deallocate(block, layout) };
    assert_eq!(source.live(), 0);
    assert!(pool.allocate_run(layout, 3).is_none());
    assert!(pool.allocate_run(NODE, 0).is_none());
    assert!(pool.allocate_run(NODE, usize::MAX / 256).is_none());
    assert!(pool.allocate_run(NODE, usize::MAX).is_none());
}

/// An allocator that refuses after `left` allocations.
struct Countdown {
    inner: Counted<Global>,
    left: Cell<usize>,
}

// SAFETY: all calls go to an allocator that keeps the promises.
unsafe impl NodeAlloc for &Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.left.set(self.left.get().checked_sub(1)?);
        self.inner.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

fn countdown(left: usize) -> Countdown {
    Countdown {
        inner: Counted::new(Global),
        left: Cell::new(left),
    }
}

/// If any allocation of the source is refused, existing nodes stay intact and nothing leaks.
#[test]
fn a_refused_slab_is_a_refused_node() {
    for left in 0..8 {
        let source = countdown(left);
        let (pool, shared) = (
            Pool::<_, 64>::new_in(&source),
            SharedPool::<_, 64>::new_in(&source),
        );
        let pools: [&dyn NodeAlloc; 2] = [&pool, &shared];
        let layout = Pool::<Global, 64>::BLOCK;
        for pool in pools {
            source.left.set(left);
            let mut nodes = Vec::new();
            while let Some(node) = pool.allocate(layout) {
                nodes.push(Marked::new(node, layout));
            }
            assert!(pool.allocate_run(layout, 1000).is_none());
            assert!(nodes.iter().all(Marked::holds));
            // The freed nodes can be allocated again, and no more.
            for node in &nodes {
                // SAFETY: it came from the pool, and is not used again.
                unsafe { pool.deallocate(node.0, layout) };
            }
            let again = std::iter::from_fn(|| pool.allocate(layout)).count();
            assert_eq!(again, nodes.len());
        }
        drop((pool, shared));
        assert_eq!(source.inner.live(), 0);
    }
}

#[test]
fn a_partial_fill_is_kept() {
    for many in [false, true] {
        for left in 0..12 {
            let source = countdown(left);
            let mut reserve = Reserve::<32>::new();
            let fill = if many {
                Reserve::fill_many
            } else {
                Reserve::fill
            };
            let filled = fill(&mut reserve, 10, &&source);
            assert_eq!(filled, if left < 10 { Err(AllocError) } else { Ok(()) });
            assert_eq!(reserve.count(), left.min(10));
            // Only missing nodes are requested.
            source.left.set(10 - reserve.count());
            fill(&mut reserve, 10, &&source).unwrap();
            fill(&mut reserve, 3, &&source).unwrap();
            assert_eq!((reserve.count(), source.left.get()), (10, 0));
            // To a pointer, and back.
            //
            // SAFETY: the source still exists.
            let raw = unsafe { reserve.into_raw() };
            // SAFETY: it came from there.
            let mut reserve = unsafe { Reserve::<32>::from_raw(raw) };
            // SAFETY: the source still exists.
            let node = unsafe { reserve.take() }.unwrap();
            assert_eq!((reserve.count(), reserve.is_empty()), (9, false));
            // SAFETY: all came from this source, and are not used again.
            unsafe {
                (&source).deallocate(node, Reserve::<32>::BLOCK);
                reserve.release(&&source);
            }
            // SAFETY: as above.
            assert!(reserve.is_empty() && unsafe { reserve.take() }.is_none());
            // SAFETY: there is no node.
            assert!(unsafe { reserve.into_raw() }.is_null());
            assert_eq!(source.inner.live(), 0);
        }
    }
}

/// A batch has as many nodes as were requested, however many runs there are, and frees all that are
/// not taken.
#[test]
fn batches_are_complete_or_refused() {
    let one_by_one = countdown(0);
    for nodes in [0, 1, 2, 9, 40] {
        for taken in [0, 1, nodes / 2, nodes] {
            let taken = taken.min(nodes);
            one_by_one.left.set(nodes);
            check_batch(nodes, taken, &mut &one_by_one);
            assert_eq!(one_by_one.inner.live(), 0);
            let slabs = Counted::new(Global);
            check_batch(nodes, taken, &mut Pool::<_, 64>::new_in(&slabs));
            check_batch(nodes, taken, &mut SharedPool::<_, 64>::new_in(&slabs));
            assert_eq!(slabs.live(), 0);
        }
        for left in 0..nodes {
            one_by_one.left.set(left);
            assert!(NodeBatch::<_, 64>::new(nodes, &mut &one_by_one).is_err());
            assert_eq!(one_by_one.inner.live(), 0);
        }
    }
}

fn check_batch(nodes: usize, taken: usize, alloc: &mut impl NodeAlloc) {
    let layout = Pool::<Global, 64>::BLOCK;
    let counted = Counted::new(alloc as &_);
    let mut source = &counted;
    let mut batch = NodeBatch::<_, 64>::new(nodes, &mut source).unwrap();
    assert_eq!(counted.live(), nodes);
    let out: Vec<Marked> = (0..taken)
        .map(|_| Marked::new(batch.take().unwrap(), layout))
        .collect();
    assert!(out.iter().all(Marked::holds));
    for node in out {
        // SAFETY: it was taken from there, and is not used again.
        unsafe { batch.put(node.0) };
    }
    if taken == nodes {
        assert!(batch.take().is_none());
    }
    drop(batch);
    assert_eq!(counted.live(), 0);
}

/// A reserve whose pool is gone still knows its count.
#[test]
fn a_reserve_may_outlive_its_pool() {
    let mut reserve = Reserve::<64>::new();
    let pool = Pool::<Global, 64>::new();
    reserve.fill(3, &pool).unwrap();
    drop(pool);
    assert_eq!(reserve.count(), 3);
    assert_eq!(format!("{reserve:?}"), "Reserve { count: 3 }");
    let pool = Pool::<Global, 64>::new();
    reserve.fill(5, &pool).unwrap();
    assert_eq!(reserve.count(), 5);
}

#[test]
fn there_are_no_blocks_of_size_zero() {
    let none = Layout::new::<()>();
    assert!(Global.allocate(none).is_none());
    assert!(Pool::<Global, 64>::new().allocate(none).is_none());
    assert!(SharedPool::<Global, 64>::new().allocate(none).is_none());
}

/// Structures that are built and dropped repeatedly do not take more and more slabs.
#[test]
fn runs_reuse_returned_nodes() {
    fn bytes_after<A: NodeAlloc>(pool: &mut A, bytes: impl Fn(&A) -> usize) {
        drop(NodeBatch::<_, 64>::new(100, pool).unwrap());
        let once = bytes(pool);
        for nodes in [100, 99, 1, 100] {
            drop(NodeBatch::<_, 64>::new(nodes, pool).unwrap());
            assert_eq!(bytes(pool), once);
        }
        drop(NodeBatch::<_, 64>::new(101, pool).unwrap());
        assert!(bytes(pool) > once);
    }
    bytes_after(&mut Pool::<Global, 64>::new(), Pool::bytes);
    bytes_after(&mut SharedPool::<Global, 64>::new(), SharedPool::bytes);
}

/// A node larger than the limit of slabs gets a slab of its own.
#[test]
fn large_nodes_get_a_slab_each() {
    const LARGE: usize = 1 << 16;
    let pool = Pool::<Global, LARGE>::new();
    for count in 1..10 {
        assert!(pool.allocate(Pool::<Global, LARGE>::BLOCK).is_some());
        assert!(pool.bytes() <= count * 2 * LARGE);
    }
}

/// Handles to the outer of two nested pools free slabs that were allocated through other handles to
/// the inner one.
#[test]
fn pools_over_pools() {
    type Outer = SharedPool<SharedPool<Global, 80>, 16>;
    let first = Outer::new_in(SharedPool::new());
    // A slab that the inner pool gets from its source.
    first.allocate(Outer::BLOCK).unwrap();
    let second = first.clone();
    // A slab that is a node of the inner pool: three nodes and a header.
    for _ in 0..4 {
        second.allocate(Outer::BLOCK).unwrap();
    }
    drop(second);
    drop(first);
}

#[test]
fn share_gives_a_handle_to_the_same_pool() {
    let slabs = Counted::new(Global);
    let pool = SharedPool::<_, 64>::new_in(&slabs);
    let layout = Pool::<Global, 64>::BLOCK;
    let shared = pool.share().unwrap();
    let node = pool.allocate(layout).unwrap();
    // SAFETY: it belongs to the same pool.
    unsafe { shared.deallocate(node, layout) };
    assert_eq!(shared.allocate(layout), Some(node));
    drop((pool, shared));
    assert_eq!(slabs.live(), 0);
    let none = countdown(0);
    assert!(SharedPool::<_, 64>::new_in(&none).share().is_none());
}

#[test]
fn clones_share_a_pool_after_the_first_allocation() {
    let slabs = Arc::new(Counted::new(Global));
    let pool = SharedPool::<_, 256>::new_in(slabs.clone());
    let early = pool.clone();
    let node = pool.allocate(NODE).unwrap();
    assert_eq!((pool.bytes(), early.bytes()), (512, 0));
    let late = pool.clone();
    assert_eq!(late.bytes(), 512);
    // SAFETY: no node is in use. The call refuses, because there is another handle.
    assert!(!unsafe { pool.deallocate_all() });
    drop(pool);
    // SAFETY: `late` is a handle to the pool that the node came from.
    unsafe { late.deallocate(node, NODE) };
    assert_eq!(late.allocate(NODE), Some(node));
    assert_eq!(late.fork().bytes(), 0);
    assert_eq!(slabs.live(), 2);
    drop(late);
    drop(early);
    assert_eq!(slabs.live(), 0);
}

#[test]
fn threads_allocate_and_free() {
    let slabs = Arc::new(Counted::new(Global));
    let pool = SharedPool::<_, 256>::new_in(slabs.clone());
    let node = pool.allocate(NODE).unwrap();
    // SAFETY: it came from the pool.
    unsafe { pool.deallocate(node, NODE) };
    std::thread::scope(|s| {
        for t in 0..3_u8 {
            let pool = pool.clone();
            s.spawn(move || {
                let mut mine: Vec<NonNull<u8>> = Vec::new();
                for i in 0..MANY {
                    if i % 5 < 3 {
                        let node = pool.allocate(NODE).unwrap();
                        // SAFETY: the 256 bytes belong to this thread.
                        unsafe { node.as_ptr().write_bytes(t, 256) };
                        mine.push(node);
                    } else if let Some(node) = mine.pop() {
                        // SAFETY: the node belongs to this thread until it is freed.
                        unsafe {
                            assert!((0..256).all(|b| node.as_ptr().add(b).read() == t));
                            pool.deallocate(node, NODE);
                        }
                    }
                }
            });
        }
    });
    drop(pool);
    assert_eq!(slabs.live(), 0);
}

/// A split pool frees what the other half allocated, whichever is dropped first. A pool that is
/// joined gives up all of its nodes.
#[test]
fn split_pools_are_interchangeable() {
    type Nodes<'a> = Pool<&'a Counted<Global>, 256>;
    let slabs = Counted::new(Global);
    for first in [0, 1] {
        let mut pools = [Nodes::new_in(&slabs), Nodes::new_in(&slabs)];
        let mut own: Vec<_> = (0..50).map(|_| pools[0].allocate(NODE).unwrap()).collect();
        pools[1] = pools[0].split().unwrap();
        own.extend((0..50).map(|_| pools[1].allocate(NODE).unwrap()));
        assert_eq!(pools[0].bytes(), pools[1].bytes());
        let bytes = pools[0].bytes();
        for (i, node) in own.drain(..).enumerate() {
            // SAFETY: it came from one of two interchangeable pools.
            unsafe { pools[i % 2].deallocate(node, NODE) };
        }
        // SAFETY: no node is in use. The call refuses, because another pool shares the slabs.
        assert!(!unsafe { pools[first].deallocate_all() });
        // All of them are reused before there is another slab.
        own.extend((0..100).map(|i| pools[i % 2].allocate(NODE).unwrap()));
        assert_eq!(pools[first].bytes(), bytes);
        let [a, b] = pools;
        let (gone, mut kept) = if first == 0 { (a, b) } else { (b, a) };
        drop(gone);
        // A third pool, with allocated and freed nodes, is joined.
        let mut third = Nodes::new_in(&slabs);
        own.extend((0..40).map(|_| third.allocate(NODE).unwrap()));
        // SAFETY: it came from there.
        unsafe { third.deallocate(own.pop().unwrap(), NODE) };
        // SAFETY: its nodes are freed to the other pool below.
        assert!(unsafe { kept.join(&mut third) });
        assert_eq!(third.bytes(), 0);
        drop(third);
        for node in own.drain(..) {
            // SAFETY: the 256 bytes belong to this test until they are freed.
            unsafe {
                node.as_ptr().write_bytes(7, 256);
                kept.deallocate(node, NODE);
            }
        }
        let before = kept.bytes();
        own.extend((0..139).map(|_| kept.allocate(NODE).unwrap()));
        assert_eq!(kept.bytes(), before);
        // SAFETY: no node is in use, and there is no other pool.
        assert!(unsafe { kept.deallocate_all() });
        drop(kept);
        assert_eq!(slabs.live(), 0);
    }
}
