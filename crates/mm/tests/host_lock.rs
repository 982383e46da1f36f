//! The lock of a machine of the host: it excludes, leaves no thread asleep for ever, and allocates
//! no memory where threads wait.
#![cfg(feature = "hosted")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use samara_mm::process::HostLock;

/// Refuses everything to threads whose flag is up.
struct Refusing;

thread_local! {
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator, or no memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match REFUSED.get() {
            true => core::ptr::null_mut(),
            // SAFETY: the caller's duties are those of this one.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties are those of this one.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

const THREADS: u64 = 16;
const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1000 };

/// Sixteen threads, most of which wait at some time: without memory none of them may end the program. It ends with locks that keep a table of sleepers.
#[test]
fn waiting_takes_no_memory() {
    let words = lock_api::RwLock::<HostLock, _>::new([0_u64; 2]);
    let sum = lock_api::Mutex::<HostLock, _>::new(0_u64);
    let reads = AtomicU64::new(0);
    let start = Barrier::new(THREADS as usize);
    let end = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (words, sum, reads, start, end) = (&words, &sum, &reads, &start, &end);
            scope.spawn(move || {
                start.wait();
                REFUSED.set(true);
                for round in 0..ROUNDS {
                    if (round + thread) % 4 == 0 {
                        let mut words = words.write();
                        words[0] += 1;
                        thread::yield_now();
                        words[1] += 1;
                    } else {
                        let words = words.read();
                        let first = words[0];
                        thread::yield_now();
                        assert_eq!((words[0], words[1]), (first, first));
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    let mut sum = sum.lock();
                    let before = *sum;
                    if round % 8 == 0 {
                        thread::yield_now();
                    }
                    *sum = before + 1;
                }
                end.wait();
                REFUSED.set(false);
            });
        }
    });
    let writes = THREADS * ROUNDS / 4;
    assert_eq!(words.into_inner(), [writes, writes]);
    assert_eq!(sum.into_inner(), THREADS * ROUNDS);
    assert_eq!(reads.into_inner(), THREADS * ROUNDS - writes);
}

#[test]
fn tries_tell_what_is_held() {
    let lock = lock_api::RwLock::<HostLock, _>::new(());
    let reader = lock.read();
    assert!(lock.try_read().is_some() && lock.try_write().is_none() && lock.is_locked());
    drop(reader);
    assert!(!lock.is_locked());
    let writer = lock.try_write();
    assert!(writer.is_some() && lock.try_read().is_none() && lock.try_write().is_none());
    drop(writer);
    assert!(!lock.is_locked() && lock.try_write().is_some());
}

/// If readers that come later were let in first, readers one of which is always in would keep a
/// writer waiting for ever.
#[test]
fn a_writer_has_its_turn_among_readers() {
    let words = lock_api::RwLock::<HostLock, _>::new(0_u64);
    let written = AtomicBool::new(false);
    let reading = [const { AtomicU64::new(0) }; 2];
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for me in 0..2 {
            let (words, written, reading, start) = (&words, &written, &reading, &start);
            scope.spawn(move || {
                let mut held = Some(words.read());
                start.wait();
                while !written.load(Ordering::Relaxed) {
                    // Out only after the other one came in again, unless both wait for the writer.
                    let other = reading[1 - me].load(Ordering::Relaxed);
                    drop(held.take());
                    held = Some(words.read());
                    reading[me].fetch_add(1, Ordering::Relaxed);
                    for _ in 0..100 {
                        if reading[1 - me].load(Ordering::Relaxed) != other {
                            break;
                        }
                        thread::yield_now();
                    }
                }
            });
        }
        start.wait();
        *words.write() += 1;
        written.store(true, Ordering::Relaxed);
    });
    assert_eq!(words.into_inner(), 1);
}

/// A thread that takes the lock again at once is faster than one that must be woken, but not for
/// ever.
#[test]
fn who_sleeps_has_its_turn_beside_who_does_not() {
    let taken = lock_api::Mutex::<HostLock, _>::new(0_u64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut taken = taken.lock();
                    for _ in 0..100 {
                        *taken += 1;
                        core::hint::spin_loop();
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            *taken.lock() += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(taken.into_inner() % 100, ROUNDS % 100);
}
