//! The shared-memory primitives that the tree uses, in one place so that a model checker can
//! stand in for the hardware.

#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The address of an entry's word, for changes in place by a caller with exclusive access to the
/// tree.
pub(crate) type Slot = core::ptr::NonNull<core::ptr::NonNull<()>>;

/// The memory of an atomic word, which is not NULL.
#[cfg(not(samara_loom))]
#[inline(always)]
pub(crate) fn memory_of(word: &AtomicPtr<()>) -> Slot {
    // SAFETY: the address of a reference is not 0.
    unsafe { core::ptr::NonNull::new_unchecked(word.as_ptr()) }.cast()
}

/// The model checker's words are no memory: this is a copy of one, which is never freed. None of the models changes a value where it is.
#[cfg(samara_loom)]
pub(crate) fn memory_of(word: &AtomicPtr<()>) -> Slot {
    let copy = std_alloc::boxed::Box::new(word.load(Ordering::Relaxed));
    core::ptr::NonNull::from(std_alloc::boxed::Box::leak(copy)).cast()
}
