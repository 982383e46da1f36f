//! The atomics of the pool and of grace periods, in one place, so that a model checker can replace
//! them.

#[cfg(all(feature = "rcu", target_has_atomic = "64", not(samara_loom)))]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(not(samara_loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(samara_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
