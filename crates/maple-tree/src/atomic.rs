//! The shared-memory primitives that the tree uses, in one place so that a model checker can
//! stand in for the hardware.

pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
