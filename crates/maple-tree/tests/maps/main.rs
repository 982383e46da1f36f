//! `MapleTree` and `SyncMapleTree`, a concept a file.
//!
//! One program rather than one for each file: what the trees are made of is compiled for each kind of key, value and allocator, and most files
//! use the same kinds. A file of its own next to this folder is a program that needs its process for itself, or kinds that no other has.
//!
//! `cargo test -p maple-tree --test maps gaps::` runs the tests of one file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod aliasing;
mod at_once;
mod auto_traits;
mod build;
mod cursor;
mod dump;
mod dup;
mod edges;
mod faces;
mod gaps;
mod iterate;
mod pool;
mod random;
mod seats;
#[cfg(feature = "serde")]
mod serde;
mod staying;
mod stress;
#[path = "../support/mod.rs"]
mod support;
mod values;
