//! What is freed when, without a structure around it: each way of reclaiming beside readers that come, stay, and leave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use samara_rcu::{Reclaim, Waiting};

/// Numbers of what has been freed, in order.
type Freed = Arc<Mutex<Vec<u32>>>;

fn freed(list: &Freed) -> Vec<u32> {
    list.lock().unwrap().clone()
}

fn retire(rcu: &impl Reclaim, list: &Freed, number: u32) {
    let list = list.clone();
    rcu.published();
    // SAFETY: nothing is freed; the tests have one writer.
    unsafe { rcu.retire(move || list.lock().unwrap().push(number)) };
}

#[test]
fn what_nobody_reads_is_freed_at_once() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    drop(rcu.enter());
    retire(&rcu, &list, 1);
    assert_eq!(freed(&list), [1]);
}

#[test]
fn what_is_retired_waits_for_the_last_reader() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    let early = rcu.enter();
    retire(&rcu, &list, 1);
    // One that came later, on more counters than there were.
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
fn what_waits_goes_with_its_owner() {
    let (rcu, list) = (Waiting::new(), Freed::default());
    let reader = rcu.enter();
    retire(&rcu, &list, 1);
    drop(reader);
    drop(rcu);
    assert_eq!(freed(&list), [1]);
}

#[test]
fn a_period_of_waiting() {
    for spread in [false, true] {
        let rcu = Waiting::new();
        assert!(!spread || rcu.spread());
        let idle = rcu.start_poll().unwrap();
        assert!(rcu.poll(idle));
        let reader = rcu.enter();
        let period = rcu.start_poll().unwrap();
        assert!(!rcu.poll(period));
        // Who comes later is not waited for.
        let later = rcu.enter();
        assert!(rcu.poll(idle) && !rcu.poll(period));
        drop(reader);
        drop(later);
        assert!(rcu.poll(period) && rcu.poll(period));
    }
}

/// One of several panics: the others are called all the same, the one that was retired last among them.
#[test]
fn a_panic_leaves_nothing_behind() {
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

/// A number that says whether it is there, and how many there are.
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

/// What nothing leads to any more; dropping it frees it. No box until then: readers may still view what is in it.
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

/// Readers of one pointer, beside a writer who replaces what it leads to: each reader sees numbers that do not become smaller, and nothing that has gone.
/// Gives what counts those that live.
fn replaced_beside_readers<R: Reclaim + Sync>(rcu: &R) -> Arc<AtomicUsize> {
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
                    // SAFETY: freed after the guard has gone.
                    let seen = unsafe { &*now.load(Ordering::Acquire) };
                    assert!(seen.there.load(Ordering::Relaxed) && seen.number >= newest);
                    newest = seen.number;
                    // A second visit within the first.
                    drop(rcu.enter());
                    assert!(seen.there.load(Ordering::Relaxed));
                    drop(guard);
                }
            });
        }
        for number in 1..=rounds {
            let old = Old(now.swap(Counted::new(number, &live), Ordering::AcqRel));
            rcu.published();
            // SAFETY: it was unlinked before. There is one writer.
            unsafe { rcu.retire(move || drop(old)) };
        }
        over.store(true, Ordering::Relaxed);
    });
    // The last one, which nobody reads any more.
    drop(Old(now.into_inner()));
    live
}

#[test]
fn threads_beside_each_other() {
    for spread in [false, true] {
        let rcu = Waiting::new();
        assert!(!spread || rcu.spread());
        let live = replaced_beside_readers(&rcu);
        drop(rcu);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}

#[cfg(feature = "user")]
mod user {
    use samara_rcu::UserRcu;

    use super::*;

    #[test]
    fn threads_beside_each_other() {
        let rcu = UserRcu::new();
        let live = replaced_beside_readers(&rcu);
        rcu.barrier();
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }

    /// Threads that begin and end leave their slots to those that come after them.
    #[test]
    fn readers_of_many_threads() {
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
        // Other tests' readers are waited for, too.
        rcu.barrier();
    }

    /// The readers are the program's, whatever they entered by; a barrier on a reader's own thread does not wait.
    #[test]
    fn a_reader_keeps_what_others_retire() {
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
    fn a_panic_leaves_nothing_behind() {
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
fn threads_beside_each_other_in_epochs() {
    let live = replaced_beside_readers(&samara_rcu::Epoch);
    // Whoever pins comes by what is left.
    while live.load(Ordering::Relaxed) > 0 {
        crossbeam_epoch::pin().flush();
    }
}
