//! A thread that writes while it reads: nothing hangs, nothing that it has seen goes, and all of it goes later.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{SyncMapleTree, Waiting};

/// Counts how many of its kind live; panics when it is dropped, if it is told to.
struct Counted {
    live: Arc<AtomicUsize>,
    bomb: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        if self.bomb {
            resume_unwind(Box::new(()));
        }
    }
}

#[derive(Default)]
struct Mint(Arc<AtomicUsize>);

impl Mint {
    fn new_one(&self, bomb: bool) -> Box<Counted> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let live = self.0.clone();
        Box::new(Counted { live, bomb })
    }

    fn live(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

type Map = SyncMapleTree<u32, Box<Counted>, Waiting>;

fn filled(mint: &Mint, entries: u32) -> Map {
    let map = Map::with_gaps(Waiting::new());
    for i in 0..entries {
        map.insert_range(10 * i..10 * i + 5, mint.new_one(false))
            .unwrap();
    }
    map
}

#[test]
fn what_spread_readers_have_seen_stays_until_the_last_of_them_has_left() {
    let mint = Mint::default();
    let map = filled(&mint, 10);
    // One that came before.
    let early = map.read();
    assert!(map.reclaim().spread() && map.reclaim().spread());
    let old = early.get(0).unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| map.read());
        let late = late.join().unwrap();
        map.erase_range(0..5).unwrap();
        assert!(std::ptr::eq(old.live.as_ref(), mint.0.as_ref()));
        drop(late);
        map.erase_range(10..15).unwrap();
        assert_eq!(mint.live(), 10);
    });
    drop(early);
    map.erase_range(20..25).unwrap();
    assert_eq!(mint.live(), 7);
}

#[test]
fn what_a_reader_has_seen_stays_while_its_thread_writes() {
    let mint = Mint::default();
    let map = filled(&mint, 100);
    let reader = map.read();
    let views: Vec<_> = reader.values().collect();
    // So much that nodes come out of use by the batch, several times.
    for i in 0..100 {
        map.store_range(10 * i..10 * i + 5, mint.new_one(false))
            .unwrap();
        map.remove(10 * i).unwrap();
        map.insert(10 * i, mint.new_one(false)).unwrap();
    }
    map.clear();
    assert!(reader.is_empty());
    assert_eq!(views.len(), 100);
    assert!(views.iter().all(|view| !view.bomb));
    assert_eq!(mint.live(), 300);
    drop(views);
    drop(reader);
    assert_eq!(mint.live(), 300);
    // The first write that removes something after the reader has left takes all of it.
    map.insert(1, mint.new_one(false)).unwrap();
    map.remove(1).unwrap();
    assert_eq!(mint.live(), 0);
    map.write().check().unwrap();
}

#[test]
fn what_was_left_goes_with_the_map() {
    let mint = Mint::default();
    for exclusive in [false, true] {
        let map = filled(&mint, 20);
        let reader = map.read();
        map.erase_range(..100).unwrap();
        assert_eq!(mint.live(), 20);
        drop(reader);
        if exclusive {
            let map = map.into_exclusive();
            assert_eq!((map.len(), mint.live()), (10, 10));
        } else {
            drop(map);
        }
        assert_eq!(mint.live(), 0);
    }
}

/// A reader of another thread that stays does not keep a writer from going on, either; and readers that come and go while one stays
/// are waited for as ever.
#[test]
fn one_that_stays_among_many() {
    let mint = Mint::default();
    let map = filled(&mint, 50);
    let rounds = if cfg!(miri) { 5 } else { 300 };
    std::thread::scope(|s| {
        let stays = map.read();
        let view = stays.get(0).unwrap();
        for _ in 0..2 {
            s.spawn(|| {
                for round in 0..rounds {
                    assert!(map.read().iter().all(|(_, view)| !view.bomb), "{round}");
                }
            });
        }
        for round in 0..rounds.min(60) {
            let key = 10 * (round % 50);
            map.store_range(key..key + 5, mint.new_one(false)).unwrap();
        }
        assert!(!view.bomb);
    });
    map.clear();
    drop(map);
    assert_eq!(mint.live(), 0);
}

#[test]
fn panics_of_drops_leave_nothing_behind() {
    let mint = Mint::default();
    let map = Map::new(Waiting::new());
    for i in 0..10 {
        map.insert(i, mint.new_one(i == 3)).unwrap();
    }
    let reader = map.read();
    map.erase_range(..9).unwrap();
    drop(reader);
    // The one that is removed now does not panic, but one of those that waited does.
    assert!(catch_unwind(AssertUnwindSafe(|| map.remove(9))).is_err());
    assert!(map.is_empty());
    assert_eq!(mint.live(), 0);
    // With the map.
    map.insert(0, mint.new_one(true)).unwrap();
    map.insert(1, mint.new_one(false)).unwrap();
    let reader = map.read();
    map.clear();
    drop(reader);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err());
    assert_eq!(mint.live(), 0);
}

thread_local! {
    /// `true` if this thread's allocations are refused.
    static DRY: Cell<bool> = const { Cell::new(false) };
}

/// The program's allocator, which refuses on request.
struct Refusing;

// SAFETY: passed on to an allocator that keeps the promises; one may always refuse.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if DRY.try_with(Cell::get).unwrap_or(false) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Without memory to note a value, the writer waits for a reader that is on its way out.
#[test]
fn without_memory_a_writer_waits() {
    let mint = Mint::default();
    let map = filled(&mint, 3);
    let (entered, wait) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(|| {
            let reader = map.read();
            entered.send(()).unwrap();
            std::thread::yield_now();
            while reader.get(0).is_some() {
                std::thread::yield_now();
            }
        });
        wait.recv().unwrap();
        // Replacing takes nodes; there are some from before.
        let mut writer = map.write();
        DRY.set(true);
        let removed = writer.remove(0);
        DRY.set(false);
        drop(writer);
        if removed.is_ok() {
            assert!(map.read().get(0).is_none());
        } else {
            map.remove(0).unwrap();
        }
    });
    drop(map);
    assert_eq!(mint.live(), 0);
}
