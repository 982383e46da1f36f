//! Refused allocations: a callback that cannot be deferred still runs, and no refusal aborts the
//! program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use samara_rcu::{Reclaim, Waiting};

thread_local! {
    /// The number of this thread's allocations that are granted before one is refused.
    static GRANTED: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The program's allocator, which refuses on request.
struct Refusing;

// SAFETY: all calls go to an allocator that keeps the promises, and any allocation may be refused.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let granted = GRANTED.try_with(|granted| {
            let left = granted.get();
            granted.set(left.wrapping_sub(1));
            left
        });
        if granted == Ok(0) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Runs a closure in which the allocation after the first `after` ones is refused.
fn refusing<T>(after: usize, run: impl FnOnce() -> T) -> T {
    GRANTED.set(after);
    let made = run();
    GRANTED.set(usize::MAX);
    made
}

/// Retires a counter's increment. The allocation after the first `granted` ones is refused.
fn retire(rcu: &impl Reclaim, count: &Arc<AtomicUsize>, granted: usize) {
    let count = count.clone();
    let room = [0u8; 32];
    rcu.published();
    // SAFETY: nothing is freed, and there is one writer.
    refusing(granted, || unsafe {
        rcu.retire(move || {
            count.fetch_add(1 + usize::from(room[0]), Ordering::Relaxed);
        });
    });
}

#[test]
fn spread_fails_without_memory() {
    let rcu = Waiting::new();
    assert!(!refusing(0, || rcu.spread()));
    let reader = rcu.enter();
    assert!(rcu.spread());
    drop(reader);
}

/// Without memory, a writer waits for a reader that is about to leave.
#[test]
fn without_memory_a_writer_waits() {
    for granted in 0..3 {
        let rcu = Waiting::new();
        let count: Arc<AtomicUsize> = Arc::default();
        let unlinked = AtomicBool::new(false);
        let (entered, wait) = channel();
        thread::scope(|s| {
            s.spawn(|| {
                let reader = rcu.enter();
                entered.send(()).unwrap();
                while !unlinked.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                assert_eq!(count.load(Ordering::Relaxed), 0);
                drop(reader);
            });
            wait.recv().unwrap();
            unlinked.store(true, Ordering::Relaxed);
            retire(&rcu, &count, granted);
        });
        drop(rcu);
        assert_eq!(count.load(Ordering::Relaxed), 1, "{granted}");
    }
}

#[cfg(feature = "user")]
#[test]
fn user_rcu() {
    use samara_rcu::UserRcu;

    for granted in 0..3 {
        let rcu = UserRcu::new();
        let count: Arc<AtomicUsize> = Arc::default();
        // A new thread, which has no slot yet.
        thread::scope(|s| {
            s.spawn(|| {
                let reader = refusing(granted, || rcu.enter());
                let period = rcu.start_poll().unwrap();
                assert!(!rcu.poll(period));
                drop(reader);
                assert!(rcu.poll(period));
                retire(&rcu, &count, granted);
            });
        });
        rcu.barrier();
        assert_eq!(count.load(Ordering::Relaxed), 1, "{granted}");
        // Retired by a reader, which must not wait for itself: without memory it leaks.
        if granted < 2 && cfg!(any(miri, sanitized)) {
            continue;
        }
        let reader = rcu.enter();
        retire(&rcu, &count, granted);
        assert_eq!(count.load(Ordering::Relaxed), 1, "{granted}");
        drop(reader);
        drop(rcu);
        let all = count.load(Ordering::Relaxed);
        assert_eq!(all, if granted < 2 { 1 } else { 2 }, "{granted}");
    }
}
