//! `MADV_DONTNEED` as in `crates/mm/src/process/discard.rs`: it holds its one area as a fault does,
//! not the address space, concurrently with faults and with calls that change the area or rely on
//! its pages.
//!
//! Two pages lie in two tables, each with a lock of its own, so that every pass over both of them
//! can be observed half done. Calls read both pages first, and each page again when they change it.
//! They rely on what they have read, since they have closed the area.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::model;
use crate::vma_lock::{Calls, Hold, VmaLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Empty,
    /// A page that the process may write to, or only read, with the number of the area in which it
    /// was created.
    Page {
        writable: bool,
        of: usize,
    },
    /// The page is in swap.
    Swapped,
}

impl Entry {
    fn is_page(self) -> bool {
        matches!(self, Entry::Page { .. })
    }
}

struct Area {
    lock: VmaLock,
    /// The data that a call changes, and that freeing writes. A concurrent read is a race, which
    /// the checker finds.
    writable: UnsafeCell<bool>,
}

/// Two places for areas. The tree contains one or none of them.
struct World {
    calls: Calls,
    tree: AtomicUsize,
    areas: [Area; 2],
    tables: [Mutex<Entry>; 2],
    /// The number of pages of the process and its children.
    frames: AtomicUsize,
    swapped: AtomicBool,
    /// `true` if discards hold their area.
    holds: bool,
}

// SAFETY: the checker finds invalid accesses to `writable`.
unsafe impl Sync for World {}

const NONE: usize = 2;

impl World {
    /// Creates an area with its pages.
    fn new() -> Arc<Self> {
        Self::with(true, 0)
    }

    /// As [`new`](Self::new). A call that creates an area comes after `others` other calls.
    fn with(holds: bool, others: usize) -> Arc<Self> {
        let area = |number| {
            let mut lock = VmaLock::new();
            if number == 1 {
                let calls = Calls::new();
                (0..others).for_each(|_| {
                    calls.end();
                });
                lock.close_new(calls.now());
            }
            let writable = UnsafeCell::new(true);
            Area { lock, writable }
        };
        let page = || {
            let writable = true;
            Mutex::new(Entry::Page { writable, of: 0 })
        };
        Arc::new(World {
            calls: Calls::new(),
            tree: AtomicUsize::new(0),
            areas: [area(0), area(1)],
            tables: [page(), page()],
            frames: AtomicUsize::new(2),
            swapped: AtomicBool::new(false),
            holds,
        })
    }

    /// Holds the area, and returns it with its access.
    fn hold(&self) -> Option<(usize, bool)> {
        loop {
            let number = self.calls.now();
            // The tree is read under RCU, which sees each change at once or later.
            let found = self.tree.load(Ordering::Acquire);
            let area = self.areas.get(found)?;
            if !self.holds {
                return Some((found, true));
            }
            match area.lock.try_hold(&self.calls, number) {
                // SAFETY: the area is held, so that no thread writes. Otherwise the checker reports
                // it.
                Hold::Held => return Some((found, area.writable.with(|w| unsafe { *w }))),
                Hold::Closed => return None,
                Hold::Overtaken => {}
            }
        }
    }

    fn release(&self, area: usize) {
        if self.holds {
            self.areas[area].lock.release();
        }
    }

    /// Discards both pages. Returns `false` if this needs the lock of the address space.
    fn discard(&self) -> bool {
        if self.swapped.load(Ordering::Relaxed) {
            return false;
        }
        let Some((held, _)) = self.hold() else {
            return false;
        };
        let mut markers = false;
        for table in &self.tables {
            let mut entry = table.lock().unwrap();
            match *entry {
                Entry::Page { of, .. } => {
                    assert_eq!(of, held, "a page of another area");
                    *entry = Entry::Empty;
                    self.frames.fetch_sub(1, Ordering::Relaxed);
                }
                Entry::Swapped => markers = true,
                Entry::Empty => {}
            }
        }
        self.release(held);
        let swapped = self.swapped.load(Ordering::Relaxed);
        assert!(swapped || !markers, "what is in swap was taken for a guard");
        !swapped
    }

    /// Writes to a page, if that does not need the lock of the address space.
    fn fault(&self, page: usize) {
        let Some((of, writable)) = self.hold() else {
            return;
        };
        let mut entry = self.tables[page].lock().unwrap();
        if writable && *entry == Entry::Empty {
            *entry = Entry::Page { writable, of };
            self.frames.fetch_add(1, Ordering::Relaxed);
        }
        drop(entry);
        self.release(of);
    }

    /// Performs a call that changes the area and both pages. `lays` is the area that takes its
    /// place, and `change` returns the new entry of each page.
    fn call(&self, lays: Option<usize>, change: impl Fn(Entry) -> Entry) -> [Entry; 2] {
        let number = self.calls.now();
        let before = self.tree.load(Ordering::Relaxed);
        self.areas[before].lock.close(number, || {});
        if let Some(area) = lays {
            self.tree.store(area, Ordering::Release);
            // SAFETY: the area is closed, so that no thread reads. Otherwise the checker reports
            // it.
            self.areas[before]
                .writable
                .with_mut(|w| unsafe { *w = false });
        }
        let seen = [0, 1].map(|page| *self.tables[page].lock().unwrap());
        for (table, seen) in self.tables.iter().zip(seen) {
            let mut entry = table.lock().unwrap();
            assert_eq!(*entry, seen, "a page has gone that a call relied on");
            *entry = change(seen);
            if seen.is_page() && !entry.is_page() {
                self.frames.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.calls.end();
        seen
    }

    fn unmap(&self) {
        self.call(Some(NONE), |_| Entry::Empty);
    }

    /// `mmap` over the area: another area without pages.
    fn map_over(&self) {
        self.call(Some(1), |_| Entry::Empty);
    }

    fn protect(&self) {
        let seen = self.call(Some(0), |entry| match entry {
            Entry::Page { of, .. } => Entry::Page {
                writable: false,
                of,
            },
            other => other,
        });
        for (table, seen) in self.tables.iter().zip(seen) {
            let entry = *table.lock().unwrap();
            let writable = matches!(entry, Entry::Page { writable: true, .. });
            assert!(!writable, "{entry:?} of {seen:?} after all are protected");
        }
    }

    /// Forks. Both pages are counted once more, or neither.
    fn fork(&self) {
        let child = self.call(None, |entry| {
            if entry.is_page() {
                self.frames.fetch_add(1, Ordering::Relaxed);
            }
            entry
        });
        assert_eq!(
            child[0], child[1],
            "a child has half of what was given back at once"
        );
        let pages = child.iter().filter(|entry| entry.is_page()).count();
        // The child exits.
        self.frames.fetch_sub(pages, Ordering::Relaxed);
    }

    fn page_out(&self) {
        self.swapped.store(true, Ordering::Relaxed);
        self.call(None, |entry| match entry.is_page() {
            true => Entry::Swapped,
            false => entry,
        });
    }

    /// Checks that every page exists or was freed, once.
    fn end(&self) {
        let entries = [0, 1].map(|page| *self.tables[page].lock().unwrap());
        let pages = entries.iter().filter(|entry| entry.is_page()).count();
        assert_eq!(self.frames.load(Ordering::Relaxed), pages);
        let area = self.tree.load(Ordering::Relaxed);
        for entry in entries {
            if let Entry::Page { of, .. } = entry {
                assert_eq!(of, area, "a page of no area");
            }
        }
    }
}

/// Runs each of `others` as a thread of its own, and `last` on the first thread.
fn run_concurrently(others: &[fn(&World)], last: fn(&World), world: Arc<World>) {
    let spawn = |run: &fn(&World)| {
        let (run, world) = (*run, world.clone());
        thread::spawn(move || run(&world))
    };
    let threads: Vec<_> = others.iter().map(spawn).collect();
    last(&world);
    for thread in threads {
        thread.join().unwrap();
    }
    world.end();
}

fn discard(world: &World) {
    world.discard();
}

#[test]
fn a_discard_during_faults() {
    model(|| {
        let faults = |world: &World| {
            world.fault(0);
            world.fault(1);
        };
        run_concurrently(&[faults], discard, World::new());
    });
}

#[test]
fn a_discard_during_another() {
    model(|| run_concurrently(&[discard], discard, World::new()));
}

#[test]
fn a_discard_during_munmap() {
    model(|| run_concurrently(&[discard], World::unmap, World::new()));
}

#[test]
fn a_discard_during_a_mapping_over_it() {
    model(|| {
        let over = |world: &World| {
            world.map_over();
            world.fault(1);
        };
        run_concurrently(&[discard], over, World::new());
    });
}

#[test]
fn a_discard_during_mprotect() {
    model(|| run_concurrently(&[discard], World::protect, World::new()));
}

#[test]
fn a_discard_during_a_fork() {
    model(|| run_concurrently(&[discard], World::fork, World::new()));
}

#[test]
fn a_discard_during_a_page_out() {
    model(|| run_concurrently(&[discard], World::page_out, World::new()));
}

#[test]
fn a_discard_and_a_fault_during_munmap() {
    model(|| {
        run_concurrently(
            &[discard, |world| world.fault(1)],
            World::unmap,
            World::new(),
        )
    });
}

#[test]
fn a_discard_and_a_fault_during_mprotect() {
    model(|| {
        run_concurrently(
            &[discard, |world| world.fault(1)],
            World::protect,
            World::new(),
        )
    });
}

#[test]
fn a_discard_during_two_calls() {
    model(|| {
        let calls = |world: &World| {
            world.fork();
            world.map_over();
        };
        run_concurrently(&[discard], calls, World::with(true, 1));
    });
}

#[test]
fn a_discard_is_done_where_no_call_is() {
    model(|| {
        let alone = |world: &World| assert!(world.discard());
        run_concurrently(&[|world| world.fault(1)], alone, World::new());
    });
}

/// The model detects what happens if discards do not hold the area.
#[test]
#[should_panic(expected = "a page has gone that a call relied on")]
fn without_holding_its_area_a_fork_sees_half_of_it() {
    model(|| run_concurrently(&[discard], World::fork, World::with(false, 0)));
}

#[test]
#[should_panic(expected = "a page of another area")]
fn without_holding_its_area_it_takes_pages_of_the_next() {
    model(|| {
        let over = |world: &World| {
            world.map_over();
            world.tables[1].lock().unwrap().clone_from(&Entry::Page {
                writable: true,
                of: 1,
            });
            world.frames.fetch_add(1, Ordering::Relaxed);
        };
        run_concurrently(&[discard], over, World::with(false, 0));
    });
}
