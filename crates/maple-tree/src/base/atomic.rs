//! The shared-memory primitives that the tree uses, in one place so that a model checker can
//! replace the hardware.

#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The address of an entry's word, for changes in place by code with exclusive access to the tree.
pub(crate) type Slot = core::ptr::NonNull<core::ptr::NonNull<()>>;

/// Returns the address of an atomic word, which is not NULL.
#[cfg(not(samara_loom))]
#[inline(always)]
pub(crate) fn memory_of(word: &AtomicPtr<()>) -> Slot {
    // SAFETY: the address of a reference is not 0.
    unsafe { core::ptr::NonNull::new_unchecked(word.as_ptr()) }.cast()
}

/// Returns the address of a copy of the word, which is never freed: the model checker's words are
/// not plain memory. None of the models changes a value in place.
#[cfg(samara_loom)]
pub(crate) fn memory_of(word: &AtomicPtr<()>) -> Slot {
    let copy = std_alloc::boxed::Box::new(word.load(Ordering::Relaxed));
    core::ptr::NonNull::from(std_alloc::boxed::Box::leak(copy)).cast()
}
