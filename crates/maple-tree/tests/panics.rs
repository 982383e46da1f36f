//! Values whose drop or clone panics, and closures and iterators that do, at every place where a
//! tree calls them. Nothing is dropped twice or used afterwards. The tree is valid and holds the
//! effects of the call so far. Nothing leaks: at the end, no value and no node lives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod panicking;
mod support;
