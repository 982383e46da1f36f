//! Addresses that are marked, few as a rule: behind a lock of their own, which nobody takes as long as there has been none.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::Mutex;

use crate::process::platform::Platform;
use crate::space::ranges::Ranges;

/// A set of addresses.
pub(super) struct Marks<P: Platform> {
    /// Whether there has ever been one.
    any: AtomicBool,
    marked: Mutex<P::Mutex, Ranges>,
}

impl<P: Platform> Marks<P> {
    pub(super) fn new() -> Self {
        Marks {
            any: AtomicBool::new(false),
            marked: Mutex::new(Ranges::new()),
        }
    }

    /// Whether there may be some. O(1).
    #[inline]
    pub(super) fn any(&self) -> bool {
        // Relaxed: a first look at what is behind the lock, by one who may as well have come before.
        self.any.load(Ordering::Relaxed)
    }

    /// Marks a range. For want of memory nothing is marked: marks make what is told more exact, and no more.
    #[cold]
    pub(super) fn set(&self, range: Range<u64>) {
        self.any.store(true, Ordering::Relaxed);
        let _ = self.marked.lock().insert(range.start, range.end);
    }

    /// Takes the marks of a range away, if there is memory for what is left around it.
    #[inline]
    pub(super) fn clear(&self, range: Range<u64>) {
        if self.any() && !range.is_empty() {
            self.clear_some(range);
        }
    }

    #[cold]
    fn clear_some(&self, range: Range<u64>) {
        let _ = self.marked.lock().remove(range.start, range.end);
    }

    /// O(log n), and O(1) as long as there has been none.
    #[inline]
    pub(super) fn has(&self, address: u64) -> bool {
        self.any() && self.marked.lock().contains(address)
    }

    /// The first marked address of a range.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if !self.any() {
            return None;
        }
        Some(self.marked.lock().first_in(range.start, range.end)?.start)
    }
}
