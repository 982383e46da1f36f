//! No memory: what cannot be noted is freed after all, and nothing ends the program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use samara_rcu::{Reclaim, Waiting};

thread_local! {
    /// So many of this thread's allocations are granted before one is refused.
    static GRANTED: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The program's allocator, which refuses on request.
struct Refusing;

// SAFETY: passed on to an allocator that keeps the promises; one may always refuse.
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

/// Has the allocation refused that comes after so many others.
fn refusing<T>(after: usize, run: impl FnOnce() -> T) -> T {
    GRANTED.set(after);
    let made = run();
    GRANTED.set(usize::MAX);
    made
}

/// What is retired, one, with so many allocations before one is refused.
fn retire(rcu: &impl Reclaim, count: &Arc<AtomicUsize>, granted: usize) {
    let count = count.clone();
    let room = [0u8; 32];
    rcu.published();
    // SAFETY: nothing is freed. There is one writer.
    refusing(granted, || unsafe {
        rcu.retire(move || {
            count.fetch_add(1 + usize::from(room[0]), Ordering::Relaxed);
        });
    });
}

#[test]
fn readers_stay_together_without_memory() {
    let rcu = Waiting::new();
    assert!(!refusing(0, || rcu.spread()));
    let reader = rcu.enter();
    assert!(rcu.spread());
    drop(reader);
}

/// The writer waits for a reader that is on its way out.
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
fn rcu_in_user_space() {
    use samara_rcu::UserRcu;

    for granted in 0..3 {
        let rcu = UserRcu::new();
        let count: Arc<AtomicUsize> = Arc::default();
        // A thread of its own, which has no slot yet.
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
        // Retired by a reader: it must not wait for itself, so that without memory this leaks.
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
