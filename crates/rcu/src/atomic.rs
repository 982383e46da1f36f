//! The atomics that this crate uses, in one place, so that a model checker can replace them.

#[cfg(all(feature = "user", target_has_atomic = "64", not(samara_loom)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicUsize, Ordering, fence};
#[cfg(all(feature = "user", target_has_atomic = "64", samara_loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering, fence};
