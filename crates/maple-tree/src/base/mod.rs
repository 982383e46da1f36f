//! What every other room builds on: keys, fanout, values as words, errors, events, and the atomics that a model checker replaces.
//!
//! May know: nothing of the crate.

#[cfg(feature = "tracing")]
pub(crate) mod events;

pub(crate) mod atomic;
pub(crate) mod bounds;
pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod shape;
pub(crate) mod unwind;
pub(crate) mod value;
