//! Atomics: the machine's own, or those of the model checker, which compiles some files of this crate a second time.

#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

/// Between a store and a load of two sequentially consistent words, for the model checker, which takes such accesses for weaker ones.
#[inline(always)]
pub(crate) fn checkers_fence() {
    #[cfg(samara_loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// One more look at a word that another thread is about to change.
#[inline(always)]
pub(crate) fn relax() {
    #[cfg(not(samara_loom))]
    core::hint::spin_loop();
    #[cfg(samara_loom)]
    loom::thread::yield_now();
}
