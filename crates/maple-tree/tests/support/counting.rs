//! Allocators and values that count, and fail when told.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use maple_tree::Duplicate;
use maple_tree::alloc::{Counted, Global, NodeAlloc};

use super::Number;

/// Refuses the allocation after the next `left` ones, and all after it; never, at `usize::MAX`.
pub struct Countdown {
    inner: Counted<Global>,
    left: AtomicUsize,
}

/// Those that are kept, so that leak checkers find them.
static KEPT: Mutex<Vec<&'static Countdown>> = Mutex::new(Vec::new());

impl Countdown {
    pub fn new() -> Self {
        Self {
            inner: Counted::new(Global),
            left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Lives as long as the program, so that trees may be moved anywhere.
    pub fn kept() -> &'static Self {
        let nodes: &Self = Box::leak(Box::new(Self::new()));
        KEPT.lock().unwrap().push(nodes);
        nodes
    }

    /// Refuses the allocation after the next `allowed` ones, and all after it; never, at `usize::MAX`.
    pub fn allow(&self, allowed: usize) {
        self.left.store(allowed, Ordering::Relaxed);
    }

    /// Returns the number of live nodes.
    pub fn live(&self) -> usize {
        self.inner.live()
    }

    /// Calls `attempt` with 0, 1, 2 … allocations allowed until it tells that it has succeeded; `after` looks at what
    /// each failure left behind. Gives the number of allocations that it took.
    pub fn insist(&self, mut attempt: impl FnMut() -> bool, mut after: impl FnMut()) -> usize {
        for allowed in 0.. {
            self.allow(allowed);
            let done = attempt();
            self.allow(usize::MAX);
            if done {
                return allowed;
            }
            after();
        }
        unreachable!()
    }
}

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self.left.load(Ordering::Relaxed) {
            0 => return None,
            usize::MAX => {}
            n => self.left.store(n - 1, Ordering::Relaxed),
        }
        self.inner.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

/// The number of live values of a kind.
#[derive(Clone, Default)]
pub struct Count(Arc<AtomicIsize>);

impl Count {
    pub fn get(&self) -> isize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, n: isize) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

/// A value that counts how many of its kind live.
pub struct Alive {
    pub number: Number,
    count: Count,
}

impl Alive {
    pub fn boxed(number: Number, count: &Count) -> Box<Self> {
        count.add(1);
        Box::new(Self {
            number,
            count: count.clone(),
        })
    }
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        self.count.add(1);
        Self {
            number: self.number,
            count: self.count.clone(),
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.count.add(-1);
    }
}

/// The number in a box that counts.
pub fn number(value: &Alive) -> Number {
    value.number
}

/// A second value of the same number.
pub fn twin(value: &Alive) -> Option<Box<Alive>> {
    Box::<Alive>::duplicate(value)
}
