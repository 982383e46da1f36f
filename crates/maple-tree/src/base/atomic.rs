//! The shared-memory primitives that the tree uses, in one place so that a model checker can
//! stand in for the hardware.

#[cfg(all(feature = "rcu", target_has_atomic = "64", not(samara_loom)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(all(feature = "rcu", target_has_atomic = "64", samara_loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
