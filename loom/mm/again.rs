//! The VMA cache of faults. Several threads note areas in one place. Faults hold a noted
//! area while calls change or free it, and while other faults note something else there.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::thread;

use crate::model;
use crate::vma_cache::{CacheLookup, Found, VmaCache, release};
use crate::vma_lock::{Calls, Hold, VmaLock};

const PAGE: u64 = 0x1000;

/// Objects to point to. The noted range of each begins and ends where no other one does.
static THINGS: [u8; 3] = [0, 1, 2];

fn found(number: u64) -> Found<u8> {
    Found {
        start: number * PAGE,
        end: 8 * PAGE + number * PAGE,
        area: NonNull::from(&THINGS[number as usize]),
    }
}

/// The range of addresses that all of them contain.
const COMMON: u64 = 4 * PAGE;

/// Returns which of them is noted. The parts of the note must belong together.
fn look(vma_cache: &VmaCache<u8>) -> Option<u64> {
    let CacheLookup::Hit(thing, holders) = vma_cache.hold(COMMON) else {
        return None;
    };
    let number = thing.start / PAGE;
    assert_eq!(thing, found(number));
    release(holders);
    Some(number)
}

#[test]
fn what_two_note_at_once_is_read_as_one_of_both() {
    model(|| {
        let vma_cache = Arc::new(VmaCache::new());
        let other = vma_cache.clone();
        let writer = thread::spawn(move || other.insert(COMMON, found(1), || true));
        vma_cache.insert(COMMON, found(2), || true);
        writer.join().unwrap();
        assert!(matches!(look(&vma_cache), Some(1 | 2)));
    });
}

#[test]
fn a_note_is_read_whole() {
    model(|| {
        let vma_cache = Arc::new(VmaCache::new());
        vma_cache.insert(COMMON, found(1), || true);
        let other = vma_cache.clone();
        let writer = thread::spawn(move || other.insert(COMMON, found(2), || true));
        look(&vma_cache);
        writer.join().unwrap();
        // The reader either prevented the note or did not.
        assert!(matches!(look(&vma_cache), Some(1 | 2)));
    });
}

/// No thread writes the note while a fault is inside.
#[test]
fn what_is_held_stays_as_it_was_found() {
    model(|| {
        let vma_cache = Arc::new(VmaCache::new());
        vma_cache.insert(COMMON, found(1), || true);
        let CacheLookup::Hit(thing, holders) = vma_cache.hold(COMMON) else {
            panic!("it was noted");
        };
        let other = vma_cache.clone();
        let writer = thread::spawn(move || other.insert(COMMON, found(2), || true));
        let seen = look(&vma_cache);
        assert!(matches!(seen, None | Some(1)), "{seen:?}");
        assert_eq!(thing, found(1));
        release(holders);
        writer.join().unwrap();
    });
}

/// An area of two pages, which a call shortens or frees during faults that remember it, and an area
/// beyond it in the same place.
struct World {
    calls: Calls,
    lock: VmaLock,
    vma_cache: VmaCache<u8>,
    /// The size of the area in the tree, in pages. 0 means no area.
    pages: AtomicUsize,
    /// Equal to `pages`. Freeing is also a write. The checker finds a concurrent read.
    attributes: UnsafeCell<usize>,
    readers: AtomicUsize,
    /// Set when a call has removed the note.
    past_p: AtomicBool,
    /// Set when that call has ended.
    ended: AtomicBool,
}

// SAFETY: the checker finds invalid accesses to `attributes`.
unsafe impl Sync for World {}

/// Returns another area, which no call changes.
fn beyond() -> Found<u8> {
    Found {
        start: 4 * PAGE,
        end: 5 * PAGE,
        area: NonNull::from(&THINGS[1]),
    }
}

/// Returns the area with this many pages.
fn area(pages: usize) -> Found<u8> {
    Found {
        start: 0,
        end: pages as u64 * PAGE,
        area: NonNull::from(&THINGS[0]),
    }
}

impl World {
    fn new() -> Arc<Self> {
        Self::with(VmaLock::new())
    }

    fn with(lock: VmaLock) -> Arc<Self> {
        Arc::new(World {
            calls: Calls::new(),
            lock,
            vma_cache: VmaCache::new(),
            pages: AtomicUsize::new(2),
            attributes: UnsafeCell::new(2),
            readers: AtomicUsize::new(0),
            past_p: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Takes a fault without the note, and notes what it has found. Returns `true` if it was
    /// handled.
    fn find(&self) -> bool {
        self.readers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let number = self.calls.now();
        let pages = self.pages.load(Ordering::Acquire);
        let held = match pages {
            0 => Hold::Closed,
            _ => self.lock.try_hold(&self.calls, number),
        };
        self.readers.fetch_sub(1, Ordering::Release);
        if held != Hold::Held {
            return false;
        }
        self.lock.mark_cached();
        let is_open = || self.lock.is_open(&self.calls);
        self.vma_cache.insert(0, area(pages), is_open);
        self.look(pages);
        self.lock.release();
        true
    }

    /// Takes the next fault. Returns `true` if the note served it.
    fn again(&self) -> bool {
        let CacheLookup::Hit(found, holders) = self.vma_cache.hold(0) else {
            return false;
        };
        assert_eq!(found.area, NonNull::from(&THINGS[0]));
        self.look((found.end / PAGE) as usize);
        release(holders);
        true
    }

    fn look(&self, pages: usize) {
        // SAFETY: the area is held, so that no thread writes. Otherwise the checker reports it.
        let attributes = self.attributes.with(|a| unsafe { *a });
        assert_eq!(attributes, pages, "the range is not the area's");
    }

    fn call(&self, pages: usize) {
        self.lock.close(self.calls.now(), || {
            self.vma_cache.remove(&area(2));
            self.past_p.store(true, Ordering::SeqCst);
        });
        // SAFETY: the area is closed, so that no thread reads. Otherwise the checker reports it.
        self.attributes.with_mut(|a| unsafe { *a = pages });
        self.pages.store(pages, Ordering::Release);
    }

    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.calls.end();
    }

    /// Frees the area, which the tree no longer contains.
    fn free(&self) {
        fence(Ordering::SeqCst);
        while self.readers.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: no reader and no holder is left. Otherwise the checker reports it.
        self.attributes.with_mut(|a| unsafe { *a = usize::MAX });
    }
}

/// Runs two faults of one thread, the second of which uses the note, concurrently with a call.
fn twice_during(call: impl Fn(&World) + Sync + Send + 'static, after: fn(&World)) {
    model(move || {
        let world = World::new();
        let other = world.clone();
        let fault = thread::spawn(move || {
            if other.find() {
                other.again();
            }
        });
        call(&world);
        world.end();
        fault.join().unwrap();
        after(&world);
    });
}

#[test]
fn a_remembered_area_serves_a_fault_during_calls_that_change_it() {
    twice_during(
        |world| world.call(1),
        |world| assert!((world.again() || world.find()) && world.again()),
    );
}

#[test]
fn a_remembered_area_serves_a_fault_during_a_call_that_frees_it() {
    twice_during(
        |world| {
            world.call(0);
            world.free();
        },
        |world| assert!(!world.again() && !world.find()),
    );
}

/// The call finds the place without a note, or with the other area, while a fault may hold what was
/// noted there before.
#[test]
fn another_area_is_noted_during_a_fault_and_a_call() {
    model(|| {
        let world = World::new();
        assert!(world.find());
        let (one, other) = (world.clone(), world.clone());
        let fault = thread::spawn(move || one.again());
        let writer = thread::spawn(move || {
            (other.vma_cache).insert(beyond().start, beyond(), || true);
        });
        world.call(0);
        world.free();
        world.end();
        fault.join().unwrap();
        writer.join().unwrap();
    });
}

/// Two faults hold the area, and the call waits for both.
#[test]
fn a_call_waits_for_two_who_remember() {
    model(|| {
        let world = World::new();
        assert!(world.find());
        let (one, other) = (world.clone(), world.clone());
        let faults = [one, other].map(|world| thread::spawn(move || world.again()));
        world.call(1);
        world.end();
        faults.into_iter().for_each(|fault| {
            fault.join().unwrap();
        });
        assert!((world.again() || world.find()) && world.again());
    });
}

#[test]
fn calls_on_other_areas_leave_what_is_remembered() {
    model(|| {
        let world = World::new();
        assert!(world.find());
        let other = world.clone();
        let fault = thread::spawn(move || assert!(other.again()));
        world.vma_cache.remove(&beyond());
        world.calls.end();
        world.calls.end();
        fault.join().unwrap();
    });
}

/// A call waits for a fault that holds the lock and notes its area in the meantime. No other fault
/// gets to hold it any more.
#[test]
fn no_fault_gets_to_hold_what_a_call_waits_for() {
    model(|| {
        let world = World::new();
        let (one, other) = (world.clone(), world.clone());
        let fault = thread::spawn(move || one.find());
        let late = thread::spawn(move || {
            let past_p = other.past_p.load(Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let CacheLookup::Hit(_, holders) = other.vma_cache.hold(0) else {
                return;
            };
            fence(Ordering::SeqCst);
            assert!(!past_p || other.ended.load(Ordering::SeqCst));
            release(holders);
        });
        world.call(1);
        world.end();
        fault.join().unwrap();
        late.join().unwrap();
    });
}

/// Numbers have wrapped around: the call seems to have closed the lock already, while a fault that
/// notes the area has held it since before.
#[test]
fn an_area_is_noted_during_the_call_whose_number_its_lock_carries() {
    model(|| {
        let calls = Calls::new();
        calls.end();
        let mut lock = VmaLock::new();
        lock.close_new(calls.now());
        let world = World::with(lock);
        let other = world.clone();
        let fault = thread::spawn(move || {
            if other.find() {
                other.again();
            }
        });
        // A call that changes another area.
        world.calls.end();
        world.call(1);
        world.end();
        fault.join().unwrap();
        assert!((world.again() || world.find()) && world.again());
    });
}
