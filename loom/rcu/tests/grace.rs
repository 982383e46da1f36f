//! Every interleaving (up to a number of preemptions) of readers and of a writer that retires what they view, with the memory model's reorderings.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml -p samara-rcu-loom`
//!
//! The checker reports who frees something without coming after those that view it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use samara_rcu::{Reclaim, Waiting};

/// What readers view as long as it is linked.
struct Viewed(UnsafeCell<bool>);

// SAFETY: that nobody views it while another frees it is what is tried.
unsafe impl Sync for Viewed {}

impl Viewed {
    fn new() -> Arc<Self> {
        Arc::new(Viewed(UnsafeCell::new(true)))
    }

    fn is_alive(&self) -> bool {
        // SAFETY: the checker reports it if this is not so.
        self.0.with(|alive| unsafe { *alive })
    }

    fn end(&self) {
        // SAFETY: as above.
        self.0.with_mut(|alive| unsafe { *alive = false });
    }
}

fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // The checker's variable LOOM_MAX_PREEMPTIONS asks for another number.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// A thread that enters, views what it finds linked, and leaves.
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

/// A reader that has chosen its counter long ago, before an earlier write let the readers go over to the other one, counts itself there, and is waited for.
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
            // SAFETY: who enters from now on finds it unlinked.
            unsafe { waiting.retire(move || value.end()) };
        }
        reader.join().unwrap();
    });
}

/// As above, with two readers; they may be spread over several counters.
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
            // SAFETY: who enters from now on finds it unlinked.
            unsafe { waiting.retire(move || value.end()) };
            readers.map(|reader| reader.join().unwrap());
        });
    }
}

/// What was unlinked is freed as soon as a poll says that the period is over that began after it.
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
fn polled_by_rcu_in_user_space() {
    polled(samara_rcu::UserRcu::new);
}

/// A value is dropped by nobody while a reader views it, and by somebody in the end. The thread that writes reads, too, first or last.
#[cfg(feature = "user")]
#[test]
fn retired_by_rcu_in_user_space() {
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
                // SAFETY: who enters from now on finds it unlinked.
                unsafe { rcu.retire(move || value.end()) };
            }
            reader.join().unwrap();
            rcu.barrier();
            assert!(!value.is_alive());
        });
    }
}
