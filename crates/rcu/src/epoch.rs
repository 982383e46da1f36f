//! An implementation of [`Reclaim`] by the epochs of `crossbeam-epoch`.

use crate::reclaim::Reclaim;

/// The epochs of `crossbeam-epoch`.
///
/// Readers write only to memory of their own thread. Retired memory is freed some time after the
/// last reader that may have found it has left, by any thread that pins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch;

// SAFETY: `crossbeam-epoch` promises that a deferred call runs only after all threads that were
// pinned at the time of deferral have been unpinned. Pinning contains the fence.
unsafe impl Reclaim for Epoch {
    type Guard<'a> = crossbeam_epoch::Guard;

    const BATCH: usize = 32;

    #[inline]
    fn enter(&self) -> crossbeam_epoch::Guard {
        crossbeam_epoch::pin()
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let guard = crossbeam_epoch::pin();
        // SAFETY: no reader that enters from now on finds the memory (the caller's promise). `free`
        // may run on any thread and borrows nothing.
        unsafe { guard.defer_unchecked(free) };
    }
}
