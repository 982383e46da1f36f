//! The shared-memory primitives that the tree uses, in one place so that a model checker can
//! stand in for the hardware.

#[cfg(all(feature = "rcu", target_has_atomic = "64", not(loom)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(all(feature = "rcu", target_has_atomic = "64", loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
