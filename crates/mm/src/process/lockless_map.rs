//! The map as lockless faults and look-ups see it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::space::AddressSpace;
use crate::space::shared::SharedMap;

/// The map of a process as faults see it that take no lock: there from the first time on that a fault would have waited for a call. Before, calls change the
/// map in place, which is quicker.
pub(super) struct LocklessMap {
    ready: AtomicBool,
    map: UnsafeCell<Option<SharedMap>>,
}

// SAFETY: `map` is written once, by `begin`, before `ready` says so; after that it is only read.
unsafe impl Sync for LocklessMap {}

impl LocklessMap {
    pub(super) fn new() -> Self {
        LocklessMap {
            ready: AtomicBool::new(false),
            map: UnsafeCell::new(None),
        }
    }

    #[inline]
    pub(super) fn map(&self) -> Option<&SharedMap> {
        // Acquire: pairs with the release in `begin`.
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: written before, and never again.
        unsafe { (*self.map.get()).as_ref() }
    }

    /// # Safety
    /// `space` is the map of this process: its exclusive borrow is what keeps others out of here.
    pub(super) unsafe fn begin(&self, space: &mut AddressSpace) {
        // Relaxed: whoever set it had the borrow before.
        if !self.ready.load(Ordering::Relaxed) {
            // SAFETY: one at a time, as the caller promises, and nobody reads before `ready` says so.
            unsafe { *self.map.get() = Some(space.share()) };
            self.ready.store(true, Ordering::Release);
        }
    }
}
