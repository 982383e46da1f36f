//! The lock of an area, and other protocols of `crates/mm`, under every interleaving of faults,
//! virtual processors and calls.

#![cfg(test)]

mod again;
#[path = "../../crates/mm/src/atomic.rs"]
mod atomic;
mod discard;
#[path = "../../crates/mm/src/process/soft/handshake.rs"]
mod handshake;
mod host;
#[path = "../../crates/mm/src/process/lock/mod.rs"]
mod lock;
mod soft;
#[path = "../../crates/mm/src/vma/vma_cache.rs"]
mod vma_cache;
#[path = "../../crates/mm/src/vma/vma_lock.rs"]
mod vma_lock;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use vma_lock::{Calls, Hold, VmaLock};

/// An area of `pages` pages, and the table of two entries that calls and faults change. A call's
/// change of the area itself is a write to `attributes`, as is freeing it. A fault that reads them
/// concurrently is a race, which the checker finds.
struct World {
    calls: Calls,
    lock: VmaLock,
    pages: AtomicUsize,
    attributes: UnsafeCell<usize>,
    table: [AtomicUsize; 2],
}

// SAFETY: the checker finds invalid accesses to `attributes`.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Self::with(VmaLock::new())
    }

    fn with(lock: VmaLock) -> Arc<Self> {
        Arc::new(World {
            calls: Calls::new(),
            lock,
            pages: AtomicUsize::new(2),
            attributes: UnsafeCell::new(7),
            table: [AtomicUsize::new(0), AtomicUsize::new(0)],
        })
    }

    /// Takes a fault. Returns `true` if it was handled.
    fn fault(&self, page: usize) -> bool {
        let pages = loop {
            let number = self.calls.now();
            // The tree is read under RCU, which sees each change at once or later.
            let pages = self.pages.load(Ordering::Acquire);
            if page >= pages {
                return false;
            }
            match self.lock.try_hold(&self.calls, number) {
                Hold::Held => break pages,
                Hold::Closed => return false,
                // Rarely twice: there are at most two calls.
                Hold::Overtaken => {}
            }
        };
        // SAFETY: the area is held, so that no thread writes. Otherwise the checker reports it.
        let attributes = self.attributes.with(|a| unsafe { *a });
        assert_eq!(attributes, 5 + pages, "the range is not the area's");
        self.table[page].store(1, Ordering::Relaxed);
        self.lock.release();
        true
    }

    /// Performs a call that leaves `pages` pages of the area.
    fn trim(&self, pages: usize) {
        let number = self.calls.now();
        self.lock.close(number, || {});
        // SAFETY: the area is closed, so that no thread reads. Otherwise the checker reports it.
        self.attributes.with_mut(|a| unsafe { *a = 5 + pages });
        self.pages.store(pages, Ordering::Release);
        for page in pages..2 {
            self.table[page].store(0, Ordering::Relaxed);
        }
        self.calls.end();
        for page in pages..2 {
            assert_eq!(
                self.table[page].load(Ordering::Relaxed),
                0,
                "a page of no area"
            );
        }
    }
}

/// Tries every interleaving with up to three preemptions.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

#[test]
fn a_fault_during_a_call_that_unmaps_its_page() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || other.fault(1));
        world.trim(1);
        fault.join().unwrap();
        assert_eq!(world.table[1].load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_fault_during_two_calls() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || other.fault(0));
        world.trim(1);
        world.trim(0);
        fault.join().unwrap();
        assert_eq!(world.table[0].load(Ordering::Relaxed), 0);
    });
}

/// Numbers have wrapped around: the call seems to have closed the lock already, while a fault has
/// held it since before.
#[test]
fn a_fault_during_the_call_whose_number_the_lock_carries() {
    model(|| {
        let calls = Calls::new();
        calls.end();
        let mut lock = VmaLock::new();
        lock.close_new(calls.now());
        let world = World::with(lock);
        let other = world.clone();
        let fault = thread::spawn(move || other.fault(1));
        // A call that changes another area.
        world.calls.end();
        world.trim(1);
        fault.join().unwrap();
        assert_eq!(world.table[1].load(Ordering::Relaxed), 0);
    });
}

#[test]
fn two_faults_during_a_call() {
    model(|| {
        let world = World::new();
        let (first, second) = (world.clone(), world.clone());
        let faults = [
            thread::spawn(move || first.fault(1)),
            thread::spawn(move || second.fault(0)),
        ];
        world.trim(1);
        for fault in faults {
            fault.join().unwrap();
        }
        assert_eq!(world.table[1].load(Ordering::Relaxed), 0);
    });
}

/// A call on another area delays a fault, but does not make it fail.
#[test]
fn a_fault_during_calls_on_other_areas_is_taken() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || assert!(other.fault(1)));
        world.calls.end();
        world.calls.end();
        fault.join().unwrap();
        world.trim(1);
    });
}

#[test]
fn faults_are_taken_where_no_call_is() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || assert!(other.fault(0)));
        assert!(world.fault(1));
        fault.join().unwrap();
        world.trim(2);
        assert!(world.fault(1));
    });
}
