//! Per-CPU frame caches: no frame is given out twice or lost, and no allocation fails while a frame
//! is cached.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use samara_paging::{Arena, Bytes, FrameAllocator, PAGE_SIZE};

const FRAMES: usize = 1024;
/// More than a cache holds.
const MANY: usize = 100;
const ROUNDS: u64 = if cfg!(miri) { 4 } else { 20_000 };

thread_local! {
    static PROCESSOR: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Memory for which the tests choose the current processor.
struct Named(NonNull<u8>);

fn layout() -> Layout {
    Layout::from_size_align(FRAMES * PAGE_SIZE as usize, PAGE_SIZE as usize).unwrap()
}

impl Named {
    fn arena() -> Arena<Self> {
        // SAFETY: the layout is not empty.
        Arena::over(Named(
            NonNull::new(unsafe { alloc_zeroed(layout()) }).unwrap(),
        ))
        .unwrap()
    }
}

// SAFETY: the value owns its memory and never accesses it.
unsafe impl Send for Named {}
// SAFETY: as above.
unsafe impl Sync for Named {}

// SAFETY: allocated with this layout, freed with the value.
unsafe impl Bytes for Named {
    fn start(&self) -> NonNull<u8> {
        self.0
    }

    fn count(&self) -> usize {
        layout().size()
    }

    fn processor(&self) -> usize {
        PROCESSOR.get()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), layout()) };
    }
}

#[test]
fn several_frames_are_as_many_as_there_are() {
    let arena = Named::arena();
    assert_eq!(arena.alloc_bulk(&mut []), 0);
    // The lowest frames, as if allocated one by one; some from the cache, some not.
    let mut frames = [0; MANY];
    assert_eq!(arena.alloc_bulk(&mut frames), MANY);
    let in_order = |i: usize| (1 << 30) + i as u64 * PAGE_SIZE;
    assert!(frames.iter().copied().eq((0..MANY).map(in_order)));
    let mut rest = [0; FRAMES];
    // One of them is in the cache of another processor.
    PROCESSOR.set(1);
    let other = arena.alloc(0).unwrap();
    PROCESSOR.set(0);
    let left = FRAMES - MANY - 1;
    assert_eq!(arena.alloc_bulk(&mut rest), left);
    let mut all: Vec<u64> = frames.iter().chain(&rest[..left]).copied().collect();
    all.push(other);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), FRAMES);
    assert_eq!(arena.alloc_bulk(&mut rest), 0);
    // Counted allocations bypass the caches.
    for phys in all {
        // SAFETY: allocated here, and nothing else uses it.
        unsafe { arena.free(phys, 0) };
    }
    arena.refuse_after(Some(5));
    assert_eq!(arena.alloc_bulk(&mut frames), 5);
    assert_eq!(arena.free_frames(), FRAMES as u64 - 5);
}

/// Threads allocate and free frames, either all on one processor (where a cache found empty may be
/// full a moment later), or each on its own.
#[test]
fn no_frame_is_given_out_twice() {
    for processors in [1, 4] {
        let arena = Named::arena();
        let holders: Vec<_> = (0..FRAMES).map(|_| AtomicUsize::new(0)).collect();
        let holder = |phys: u64| &holders[((phys - (1 << 30)) / PAGE_SIZE) as usize];
        thread::scope(|scope| {
            for i in 1..=4 {
                let (arena, holder) = (&arena, &holder);
                scope.spawn(move || {
                    PROCESSOR.set(i % processors);
                    let mut held = Vec::new();
                    let mut random = i as u64;
                    for round in 0..ROUNDS {
                        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        let some = (random >> 58) as usize;
                        if round % 8 == 3 && held.len() + some <= MANY {
                            let mut several = vec![0; some];
                            assert_eq!(arena.alloc_bulk(&mut several), some);
                            for phys in several {
                                assert_eq!(holder(phys).swap(i, Ordering::Relaxed), 0);
                                held.push((phys, false));
                            }
                            continue;
                        }
                        for _ in 0..some {
                            if random >> 40 & 1 == 0 && held.len() < MANY {
                                let table = round % 16 == 0;
                                let phys = if table {
                                    arena.alloc_table()
                                } else {
                                    arena.alloc(0)
                                };
                                let phys = phys.unwrap();
                                assert_eq!(holder(phys).swap(i, Ordering::Relaxed), 0);
                                held.push((phys, table));
                            } else if let Some((phys, table)) = held.pop() {
                                assert_eq!(holder(phys).swap(0, Ordering::Relaxed), i);
                                // SAFETY: allocated here, and nothing else uses it.
                                unsafe {
                                    match table {
                                        true => arena.free_table(phys),
                                        false => arena.free(phys, 0),
                                    }
                                }
                            }
                        }
                    }
                    for (phys, _) in held {
                        holder(phys).store(0, Ordering::Relaxed);
                        let run = phys..phys + PAGE_SIZE;
                        // SAFETY: as above; a run of one.
                        unsafe { arena.free_runs(std::slice::from_ref(&run)) };
                    }
                });
            }
        });
        assert_eq!(arena.free_frames(), FRAMES as u64);
        arena.trim();
        assert_eq!(arena.trim(), 0);
        assert_eq!(arena.free_frames(), FRAMES as u64);
    }
}

#[test]
fn an_allocation_drains_the_caches_of_other_processors() {
    let arena = Named::arena();
    let take_all = || -> Vec<u64> { std::iter::from_fn(|| arena.alloc(0)).collect() };
    let give_all = |frames: Vec<u64>, processors: usize| {
        for (i, phys) in frames.into_iter().enumerate() {
            PROCESSOR.set(i % processors);
            // SAFETY: allocated here, and nothing else uses it.
            unsafe { arena.free(phys, 0) };
        }
    };
    let mut all = take_all();
    assert_eq!(all.len(), FRAMES);
    give_all(all, 16);
    // One processor gets the frames cached for all sixteen.
    PROCESSOR.set(7);
    all = take_all();
    assert_eq!(all.len(), FRAMES);
    give_all(all, 5);
    // Also as tables and as blocks.
    let tables: Vec<u64> = std::iter::from_fn(|| arena.alloc_table()).collect();
    assert_eq!(tables.len(), FRAMES);
    for phys in tables {
        // SAFETY: as above.
        unsafe { arena.free_table(phys) };
    }
    all = take_all();
    give_all(all, 3);
    let blocks = [arena.alloc(9), arena.alloc(9), arena.alloc(9)];
    assert!(matches!(blocks, [Some(_), Some(_), None]));
    for phys in blocks.into_iter().flatten() {
        // SAFETY: as above.
        unsafe { arena.free(phys, 9) };
    }
    assert_eq!(arena.free_frames(), FRAMES as u64);
}

#[test]
fn counted_allocations_are_counted_one_by_one() {
    let arena = Named::arena();
    let one = arena.alloc(0).unwrap();
    assert_eq!(arena.free_frames(), FRAMES as u64 - 1);
    for allowed in [0, 1, 3] {
        arena.refuse_after(Some(allowed));
        let given: Vec<u64> = std::iter::from_fn(|| arena.alloc(0)).collect();
        assert_eq!(given.len() as u64, allowed);
        assert_eq!((arena.alloc_table(), arena.alloc(9)), (None, None));
        arena.refuse_after(None);
        for phys in given {
            // SAFETY: allocated here, and nothing else uses it.
            unsafe { arena.free(phys, 0) };
        }
    }
    // SAFETY: as above.
    unsafe { arena.free(one, 0) };
    assert_eq!(arena.free_frames(), FRAMES as u64);
}
