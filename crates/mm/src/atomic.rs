//! Atomics: the machine's own, or those of the model checker, which compiles some files of this crate a second time.

#[cfg(all(not(samara_loom), target_has_atomic = "64"))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(all(feature = "paging", not(samara_loom)))]
pub(crate) use core::sync::atomic::fence;
#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(all(not(samara_loom), not(target_has_atomic = "64")))]
pub(crate) use portable_atomic::AtomicU64;

/// Between a store and a load of two sequentially consistent words, for the model checker, which takes such accesses for weaker ones.
#[inline(always)]
pub(crate) fn checkers_fence() {
    #[cfg(samara_loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// One more look at a word that another thread is about to change.
#[inline(always)]
pub(crate) fn relax() {
    #[cfg(all(feature = "paging", not(samara_loom)))]
    samara_paging::relax();
    #[cfg(not(any(feature = "paging", samara_loom)))]
    core::hint::spin_loop();
    #[cfg(samara_loom)]
    loom::thread::yield_now();
}
