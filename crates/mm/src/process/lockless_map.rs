//! The map as lockless faults and look-ups see it.
//!
//! Invariant: the map is shared at most once, with the address space borrowed exclusively, and
//! stays shared for as long as the process lives.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::space::AddressSpace;
use crate::space::shared::SharedMap;

/// The shared map of a process, made when a fault first has to wait for a call. Before that, calls
/// change the tree in place, which is faster.
pub(super) struct LocklessMap {
    ready: AtomicBool,
    map: UnsafeCell<Option<SharedMap>>,
}

// SAFETY: `begin` writes `map` once, before it sets `ready`. After that, `map` is only read.
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
        // SAFETY: `map` was written before `ready` was set, and is never written again.
        unsafe { (*self.map.get()).as_ref() }
    }

    /// Shares the map, unless it is shared already.
    ///
    /// # Safety
    /// `space` is the map of this process. Its exclusive borrow excludes a concurrent call of this
    /// function.
    pub(super) unsafe fn begin(&self, space: &mut AddressSpace) {
        // Relaxed: the thread that set it held the exclusive borrow before.
        if !self.ready.load(Ordering::Relaxed) {
            // SAFETY: the caller promises exclusion, and no thread reads `map` before `ready` is
            // set.
            unsafe { *self.map.get() = Some(space.share()) };
            self.ready.store(true, Ordering::Release);
        }
    }
}
