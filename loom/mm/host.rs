//! The lock of a machine of the host. No thread is inside together with a writer, no thread sleeps
//! for ever (the checker finds it), and readers do not make each other wait.
//!
//! In this model, threads do not check again before they sleep, and are given the lock after one
//! wake-up in vain.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::lock::{HostLock, Mode};
use crate::model;

/// A plain number that is read and written under the lock. If the lock does not exclude threads, or
/// does not make writes visible, the checker reports it.
struct Locked {
    lock: HostLock,
    value: UnsafeCell<usize>,
}

// SAFETY: the checker finds invalid accesses to `value`.
unsafe impl Sync for Locked {}

impl Locked {
    fn new() -> Arc<Self> {
        Arc::new(Locked {
            lock: HostLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn add(&self) {
        self.lock.write();
        self.add_inside();
    }

    /// Increments the value as a writer that is inside, and leaves.
    fn add_inside(&self) {
        // SAFETY: no other thread is inside. Otherwise the checker reports it.
        self.value.with_mut(|value| unsafe { *value += 1 });
        // SAFETY: the thread has locked for writing.
        unsafe { self.lock.end_write() };
    }

    fn value(&self) -> usize {
        // SAFETY: no thread writes. Otherwise the checker reports it.
        self.value.with(|value| unsafe { *value })
    }

    fn get(&self) -> usize {
        self.lock.read();
        let value = self.value();
        // SAFETY: the thread has locked for reading.
        unsafe { self.lock.end_read() };
        value
    }

    /// Reads while the thread already reads.
    fn get_twice(&self) -> [usize; 2] {
        self.lock.read();
        let both = [self.value(), self.get()];
        // SAFETY: the thread has locked for reading.
        unsafe { self.lock.end_read() };
        both
    }
}

#[test]
fn two_writers() {
    model(|| {
        let locked = Locked::new();
        let other = locked.clone();
        let writer = thread::spawn(move || (0..2).for_each(|_| other.add()));
        (0..2).for_each(|_| locked.add());
        writer.join().unwrap();
        assert_eq!(locked.get(), 4);
    });
}

/// One of them can be woken in vain, and is then given the lock.
#[test]
fn three_writers() {
    model(|| {
        let locked = Locked::new();
        let others = [0, 1].map(|_| {
            let other = locked.clone();
            thread::spawn(move || other.add())
        });
        (0..2).for_each(|_| locked.add());
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(locked.get(), 4);
    });
}

#[test]
fn readers_and_a_writer() {
    model(|| {
        let locked = Locked::new();
        let others = [0, 1].map(|_| {
            let other = locked.clone();
            thread::spawn(move || assert!(other.get() <= other.get()))
        });
        (0..2).for_each(|_| locked.add());
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(locked.get(), 2);
    });
}

#[test]
fn writers_and_a_reader() {
    model(|| {
        let locked = Locked::new();
        let others = [0, 1].map(|_| {
            let other = locked.clone();
            thread::spawn(move || other.add())
        });
        assert!(locked.get() <= locked.get());
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(locked.get(), 2);
    });
}

/// A writer that was there before them is gone. Readers enter while others read, and while one of
/// them reads twice.
#[test]
fn readers_run_concurrently() {
    model(|| {
        let locked = Locked::new();
        locked.lock.write();
        let (once, twice) = (locked.clone(), locked.clone());
        let once = thread::spawn(move || assert_eq!(once.get(), 1));
        let twice = thread::spawn(move || assert_eq!(twice.get_twice(), [1, 1]));
        locked.add_inside();
        once.join().unwrap();
        twice.join().unwrap();
    });
}

/// As above, and each of them stays until the other one is inside.
#[test]
fn readers_who_wait_for_each_other() {
    model(|| {
        let locked = Locked::new();
        locked.lock.write();
        let in_there = Arc::new([Notify::new(), Notify::new()]);
        let others = [0, 1].map(|me| {
            let (locked, in_there) = (locked.clone(), in_there.clone());
            thread::spawn(move || {
                locked.lock.read();
                in_there[me].notify();
                in_there[1 - me].wait();
                assert_eq!(locked.value(), 1);
                // SAFETY: the thread has locked for reading.
                unsafe { locked.lock.end_read() };
            })
        });
        locked.add_inside();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn attempts_while_a_thread_waits() {
    model(|| {
        let locked = Locked::new();
        let (writer, reader) = (locked.clone(), locked.clone());
        let writer = thread::spawn(move || writer.add());
        let reader = thread::spawn(move || reader.get());
        let mut added = 1;
        if locked.lock.attempt(Mode::Write) {
            locked.add_inside();
            added += 1;
        }
        if locked.lock.attempt(Mode::Read) {
            assert!(locked.value() <= added);
            // SAFETY: the thread has locked for reading.
            unsafe { locked.lock.end_read() };
        }
        writer.join().unwrap();
        assert!(reader.join().unwrap() <= added);
        assert_eq!(locked.get(), added);
    });
}
