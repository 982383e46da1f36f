//! Values whose drop or clone panics, and closures and iterators that do, at every place where a tree calls them: nothing is dropped
//! twice or used after, the tree is whole and holds what the call had come to, and nothing leaks: when all is over, no value and no node lives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod panicking;
mod support;
