//! Another crate's epochs.

use crate::reclaim::Reclaim;

/// The epochs of `crossbeam-epoch`: readers write only memory of their own, and what is retired is freed some time
/// after the last of them has left, by whichever thread comes by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch;

// SAFETY: `crossbeam-epoch` promises that what is deferred is called after all threads that were pinned when it was
// deferred have been unpinned; pinning contains the fence.
unsafe impl Reclaim for Epoch {
    type Guard<'a> = crossbeam_epoch::Guard;

    const BATCH: usize = 32;

    #[inline]
    fn enter(&self) -> crossbeam_epoch::Guard {
        crossbeam_epoch::pin()
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let guard = crossbeam_epoch::pin();
        // SAFETY: no reader that enters from now on finds what is freed (the caller's promise); `free` may run on any
        // thread and borrows nothing.
        unsafe { guard.defer_unchecked(free) };
    }
}
