//! All interleavings, up to a bound of preemptions, of readers and of a writer that retires what
//! they view. The model checker also tries the reorderings that the memory model permits.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml -p samara-rcu-loom`
//!
//! The checker reports a thread that frees something concurrently with a reader that views it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use samara_rcu::{Reclaim, Waiting};

/// A value that readers view while it is linked.
struct Viewed(UnsafeCell<bool>);

// SAFETY: the test checks that no thread views it while another frees it.
unsafe impl Sync for Viewed {}

impl Viewed {
    fn new() -> Arc<Self> {
        Arc::new(Viewed(UnsafeCell::new(true)))
    }

    fn is_alive(&self) -> bool {
        // SAFETY: the checker reports it if another thread changes the value concurrently.
        self.0.with(|alive| unsafe { *alive })
    }

    fn end(&self) {
        // SAFETY: the checker reports it if another thread uses the value concurrently.
        self.0.with_mut(|alive| unsafe { *alive = false });
    }
}

fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// Spawns a thread that enters, views the value if it is linked, and leaves.
fn reader<R: Reclaim + Send + Sync + 'static>(
    rcu: &Arc<R>,
    value: &Arc<Viewed>,
    linked: &Arc<AtomicBool>,
) -> thread::JoinHandle<()> {
    let (rcu, value, linked) = (rcu.clone(), value.clone(), linked.clone());
    thread::spawn(move || {
        let guard = rcu.enter();
        if linked.load(Ordering::Relaxed) {
            assert!(value.is_alive());
        }
        drop(guard);
    })
}

/// A reader may choose its counter long before it counts itself there. An earlier write has
/// turned new readers to the other counter. The writer must wait for this reader all the
/// same.
#[test]
fn retired_by_waiting() {
    explore(|| {
        let waiting = Arc::new(Waiting::new());
        let values = [Viewed::new(), Viewed::new()];
        let linked = Arc::new(AtomicUsize::new(0));
        let reader = {
            let (waiting, values, linked) = (waiting.clone(), values.clone(), linked.clone());
            thread::spawn(move || {
                let guard = waiting.enter();
                if let Some(value) = values.get(linked.load(Ordering::Relaxed)) {
                    assert!(value.is_alive());
                }
                drop(guard);
            })
        };
        for (i, value) in values.into_iter().enumerate() {
            linked.store(i + 1, Ordering::Relaxed);
            waiting.published();
            // SAFETY: a reader that enters from now on finds it unlinked.
            unsafe { waiting.retire(move || value.end()) };
        }
        reader.join().unwrap();
    });
}

/// As above, with two readers, also spread over several counters.
#[test]
fn two_readers_of_waiting() {
    for spread in [false, true] {
        explore(move || {
            let waiting = Arc::new(Waiting::new());
            assert!(!spread || waiting.spread());
            let value = Viewed::new();
            let linked = Arc::new(AtomicBool::new(true));
            let readers = [(); 2].map(|()| reader(&waiting, &value, &linked));
            linked.store(false, Ordering::Relaxed);
            waiting.published();
            // SAFETY: a reader that enters from now on finds it unlinked.
            unsafe { waiting.retire(move || value.end()) };
            readers.map(|reader| reader.join().unwrap());
        });
    }
}

/// A value may be freed as soon as a poll returns `true` for a period that began after the
/// unlinking.
fn polled<R: Reclaim + Send + Sync + 'static>(new: fn() -> R) {
    explore(move || {
        let rcu = Arc::new(new());
        let value = Viewed::new();
        let linked = Arc::new(AtomicBool::new(true));
        let reader = reader(&rcu, &value, &linked);
        linked.store(false, Ordering::Relaxed);
        let period = rcu.start_poll().unwrap();
        let over = rcu.poll(period);
        if over {
            value.end();
        }
        reader.join().unwrap();
        assert!(over || rcu.poll(period));
    });
}

#[test]
fn polled_by_waiting() {
    polled(Waiting::new);
}

#[cfg(feature = "user")]
#[test]
fn polled_by_user_rcu() {
    polled(samara_rcu::UserRcu::new);
}

/// No value is dropped while a reader views it, and each is dropped in the end. The writing thread
/// also reads, before or after the unlinking.
#[cfg(feature = "user")]
#[test]
fn retired_by_user_rcu() {
    use samara_rcu::UserRcu;

    for first in [true, false] {
        explore(move || {
            let rcu = Arc::new(UserRcu::new());
            let value = Viewed::new();
            let linked = Arc::new(AtomicBool::new(true));
            if first {
                drop(rcu.enter());
            }
            let reader = reader(&rcu, &value, &linked);
            linked.store(false, Ordering::Relaxed);
            if !first {
                drop(rcu.enter());
            }
            for _ in 0..2 {
                let value = value.clone();
                // SAFETY: a reader that enters from now on finds it unlinked.
                unsafe { rcu.retire(move || value.end()) };
            }
            reader.join().unwrap();
            rcu.barrier();
            assert!(!value.is_alive());
        });
    }
}
