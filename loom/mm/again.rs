//! Areas that faults remember: what several threads note in one place, and holding what was noted beside calls that change it or free it.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use crate::model;
use crate::remembered::{Found, Known, Remembered};
use crate::vma_lock::{Calls, Hold, Number, VmaLock};

/// Things to point to: what is noted of each has its number all over.
static THINGS: [u8; 3] = [0, 1, 2];

fn found(number: u64) -> Found<u8> {
    Found {
        start: 0,
        end: 0x1_0000 + number,
        area: NonNull::from(&THINGS[number as usize]),
    }
}

/// Notes one thing, or looks whether what is there belongs together.
fn note(remembered: &Remembered<u8>, number: u32) {
    let thing = found(u64::from(number));
    remembered.set(0, u64::from(number), thing, Number::new(number));
}

fn look(remembered: &Remembered<u8>, number: u32) -> bool {
    let Known::This(thing, closed_in) = remembered.get(0, u64::from(number)) else {
        return false;
    };
    assert_eq!(thing, found(u64::from(number)));
    assert_eq!(closed_in, Number::new(number));
    true
}

#[test]
fn what_two_note_at_once_is_read_as_one_of_both() {
    model(|| {
        let remembered = Arc::new(Remembered::new());
        let other = remembered.clone();
        let writer = thread::spawn(move || note(&other, 1));
        note(&remembered, 2);
        writer.join().unwrap();
        assert!(look(&remembered, 1) != look(&remembered, 2));
    });
}

#[test]
fn what_is_noted_beside_a_look_is_read_whole() {
    model(|| {
        let remembered = Arc::new(Remembered::new());
        note(&remembered, 1);
        let other = remembered.clone();
        let writer = thread::spawn(move || note(&other, 2));
        look(&remembered, 1);
        writer.join().unwrap();
        assert!(look(&remembered, 2));
    });
}

/// An area of two pages, which a call makes shorter or frees, beside a fault that remembers it.
struct World {
    calls: Calls,
    lock: VmaLock,
    /// What the tree says: 0 for no area.
    pages: AtomicUsize,
    /// As `pages`; freeing is a write, too. The checker finds a look beside that.
    attributes: UnsafeCell<usize>,
    freed: AtomicUsize,
    readers: AtomicUsize,
}

// SAFETY: the checker tells whether `attributes` is used well.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            calls: Calls::new(),
            lock: VmaLock::new(),
            pages: AtomicUsize::new(2),
            attributes: UnsafeCell::new(2),
            freed: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
        })
    }

    fn enter(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn leave(&self) {
        self.readers.fetch_sub(1, Ordering::Release);
    }

    fn freed(&self) -> usize {
        self.freed.load(Ordering::SeqCst)
    }

    /// A fault that finds the area in the tree: its range, and what it remembers.
    fn find(&self) -> Option<(usize, usize, Number)> {
        self.enter();
        let freed = self.freed();
        let number = self.calls.now();
        let pages = self.pages.load(Ordering::Acquire);
        let held = match pages {
            0 => Hold::Closed,
            _ => self.lock.try_hold(&self.calls, number),
        };
        self.leave();
        let Hold::Held(closed_in) = held else {
            return None;
        };
        self.look(pages);
        self.lock.let_go();
        Some((pages, freed, closed_in))
    }

    /// The next fault. Whether what was remembered served.
    fn again(&self, (pages, freed, closed_in): (usize, usize, Number)) -> bool {
        self.enter();
        let held = self.freed() == freed && self.lock.try_hold_again(closed_in);
        self.leave();
        if held {
            self.look(pages);
            self.lock.let_go();
        }
        held
    }

    fn look(&self, pages: usize) {
        // SAFETY: held, so that nobody writes; else the checker says so.
        let attributes = self.attributes.with(|a| unsafe { *a });
        assert_eq!(attributes, pages, "the range is not the area's");
    }

    fn call(&self, pages: usize) {
        self.lock.close(self.calls.now());
        // SAFETY: closed, so that nobody reads; else the checker says so.
        self.attributes.with_mut(|a| unsafe { *a = pages });
        self.pages.store(pages, Ordering::Release);
    }

    /// Frees the area, which the tree leads to no longer.
    fn free(&self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while self.readers.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: no reader and no holder is left; else the checker says so.
        self.attributes.with_mut(|a| unsafe { *a = usize::MAX });
    }
}

/// Two faults of one thread, the second of which remembers, beside a call.
fn twice_beside(call: impl Fn(&World) + Sync + Send + 'static, after: fn(&World)) {
    model(move || {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || {
            if let Some(found) = other.find() {
                other.again(found);
            }
        });
        call(&world);
        world.calls.end();
        fault.join().unwrap();
        after(&world);
    });
}

#[test]
fn a_fault_goes_on_with_what_it_remembers_beside_calls_that_change_it() {
    twice_beside(
        |world| world.call(1),
        |world| {
            let found = world.find().unwrap();
            assert!(found.0 == 1 && world.again(found));
        },
    );
}

#[test]
fn a_fault_goes_on_with_what_it_remembers_beside_a_call_that_frees_it() {
    twice_beside(
        |world| {
            world.call(0);
            world.free();
        },
        |world| assert!(world.find().is_none()),
    );
}

#[test]
fn calls_on_other_areas_leave_what_is_remembered() {
    model(|| {
        let world = World::new();
        let found = world.find().unwrap();
        let other = world.clone();
        let fault = thread::spawn(move || assert!(other.again(found)));
        world.calls.end();
        world.calls.end();
        fault.join().unwrap();
    });
}
