//! Tests of each implementation of `Reclaim`, without a structure: when callbacks run while readers
//! enter, stay and leave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use samara_rcu::{Reclaim, Waiting};

/// The numbers of the callbacks that have run, in order.
type Freed = Arc<Mutex<Vec<u32>>>;

fn freed(list: &Freed) -> Vec<u32> {
    list.lock().unwrap().clone()
}

fn retire(rcu: &impl Reclaim, list: &Freed, number: u32) {
    let list = list.clone();
    rcu.published();
    // SAFETY: nothing is freed, and each test has one writer.
    unsafe { rcu.retire(move || list.lock().unwrap().push(number)) };
}

#[test]
fn freed_at_once_without_readers() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    drop(rcu.enter());
    retire(&rcu, &list, 1);
    assert_eq!(freed(&list), [1]);
}

#[test]
fn freed_after_the_last_reader() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    let early = rcu.enter();
    retire(&rcu, &list, 1);
    // A reader that entered later, on shards that did not exist before.
    assert!(rcu.spread() && rcu.spread());
    let late = thread::scope(|s| s.spawn(|| rcu.enter()).join().unwrap());
    retire(&rcu, &list, 2);
    drop(early);
    retire(&rcu, &list, 3);
    assert_eq!(freed(&list), []);
    drop(late);
    retire(&rcu, &list, 4);
    let mut all = freed(&list);
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4]);
}

#[test]
fn dropping_frees_deferred() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    let reader = rcu.enter();
    retire(&rcu, &list, 1);
    drop(reader);
    drop(rcu);
    assert_eq!(freed(&list), [1]);
}

#[test]
fn poll_reports_the_end_of_a_period() {
    for spread in [false, true] {
        let rcu = Waiting::new();
        assert!(!spread || rcu.spread());
        let idle = rcu.start_poll().unwrap();
        assert!(rcu.poll(idle));
        let reader = rcu.enter();
        let period = rcu.start_poll().unwrap();
        assert!(!rcu.poll(period));
        // A reader that enters later is not waited for.
        let later = rcu.enter();
        assert!(rcu.poll(idle) && !rcu.poll(period));
        drop(reader);
        drop(later);
        assert!(rcu.poll(period) && rcu.poll(period));
    }
}

/// If one callback panics, the others still run, the one retired last included.
#[test]
fn callbacks_run_after_a_panic() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    let note_three = || {
        let reader = rcu.enter();
        retire(&rcu, &list, 1);
        rcu.published();
        // SAFETY: nothing is freed.
        unsafe { rcu.retire(|| resume_unwind(Box::new(()))) };
        retire(&rcu, &list, 2);
        drop(reader);
    };
    note_three();
    let failed = catch_unwind(AssertUnwindSafe(|| retire(&rcu, &list, 3)));
    assert!(failed.is_err());
    let mut all = freed(&list);
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
    note_three();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(rcu))).is_err());
    assert_eq!(list.lock().unwrap().len(), 5);
}

/// A number with a flag that is cleared when it is dropped, and a counter of all live ones.
struct Counted {
    number: usize,
    there: AtomicBool,
    live: Arc<AtomicUsize>,
}

impl Counted {
    fn new(number: usize, live: &Arc<AtomicUsize>) -> *mut Self {
        live.fetch_add(1, Ordering::Relaxed);
        Box::into_raw(Box::new(Counted {
            number,
            there: AtomicBool::new(true),
            live: live.clone(),
        }))
    }
}

/// An unlinked number, which is freed when this is dropped. Not a `Box` until then: readers may
/// still view it.
struct Old(*mut Counted);

// SAFETY: numbers may be dropped on any thread.
unsafe impl Send for Old {}

impl Drop for Old {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the readers have left.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.there.swap(false, Ordering::Relaxed), "dropped twice");
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs readers of one pointer while a writer replaces what it leads to. Each reader sees numbers
/// that never decrease, and none that was dropped. Returns the counter of live numbers.
fn replace_during_reads<R: Reclaim + Sync>(rcu: &R) -> Arc<AtomicUsize> {
    let (rounds, threads) = if cfg!(miri) { (20, 2) } else { (5_000, 3) };
    let live = Arc::default();
    let now = AtomicPtr::new(Counted::new(0, &live));
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                let mut newest = 0;
                while !over.load(Ordering::Relaxed) {
                    let guard = rcu.enter();
                    // SAFETY: it is freed after the guard has been dropped.
                    let seen = unsafe { &*now.load(Ordering::Acquire) };
                    assert!(seen.there.load(Ordering::Relaxed) && seen.number >= newest);
                    newest = seen.number;
                    // A nested visit.
                    drop(rcu.enter());
                    assert!(seen.there.load(Ordering::Relaxed));
                    drop(guard);
                }
            });
        }
        for number in 1..=rounds {
            let old = Old(now.swap(Counted::new(number, &live), Ordering::AcqRel));
            rcu.published();
            // SAFETY: it was unlinked before, and there is one writer.
            unsafe { rcu.retire(move || drop(old)) };
        }
        over.store(true, Ordering::Relaxed);
    });
    // The last one, which no reader views any more.
    drop(Old(now.into_inner()));
    live
}

#[test]
fn concurrent_threads() {
    for spread in [false, true] {
        let rcu = Waiting::new();
        assert!(!spread || rcu.spread());
        let live = replace_during_reads(&rcu);
        drop(rcu);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}

#[cfg(feature = "user")]
mod user {
    use samara_rcu::UserRcu;

    use super::*;

    #[test]
    fn concurrent_threads() {
        let rcu = UserRcu::new();
        let live = replace_during_reads(&rcu);
        rcu.barrier();
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }

    /// Threads that end leave their slots to later threads.
    #[test]
    fn slots_are_reused() {
        let rcu = UserRcu::new();
        let rounds = if cfg!(miri) { 4 } else { 100 };
        for _ in 0..rounds {
            thread::scope(|s| {
                let inside = s.spawn(|| {
                    let guard = rcu.enter();
                    let period = rcu.start_poll();
                    let over = period.is_some_and(|period| rcu.poll(period));
                    drop(guard);
                    over
                });
                assert!(!inside.join().unwrap());
            });
        }
        // Readers of other tests are waited for, too.
        rcu.barrier();
    }

    /// A reader counts for every `UserRcu` of the program. A barrier on a reader's own thread does
    /// not wait.
    #[test]
    fn readers_are_shared_by_all_instances() {
        let (here, there, list) = (UserRcu::new(), UserRcu::new(), Freed::default());
        let reader = there.enter();
        retire(&here, &list, 1);
        here.barrier();
        assert_eq!(freed(&list), []);
        drop(reader);
        here.barrier();
        assert_eq!(freed(&list), [1]);
        retire(&here, &list, 2);
        drop(here);
        assert_eq!(freed(&list), [1, 2]);
    }

    #[test]
    fn callbacks_run_after_a_panic() {
        let (rcu, list) = (UserRcu::new(), Freed::default());
        retire(&rcu, &list, 1);
        // SAFETY: nothing is freed.
        unsafe { rcu.retire(|| resume_unwind(Box::new(()))) };
        retire(&rcu, &list, 2);
        assert!(catch_unwind(AssertUnwindSafe(|| rcu.barrier())).is_err());
        assert_eq!(freed(&list), [1, 2]);
    }
}

#[cfg(feature = "epoch")]
#[test]
fn concurrent_threads_in_epochs() {
    let live = replace_during_reads(&samara_rcu::Epoch);
    // Any thread that pins frees what is left.
    while live.load(Ordering::Relaxed) > 0 {
        crossbeam_epoch::pin().flush();
    }
}
