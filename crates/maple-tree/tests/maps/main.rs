//! `MapleTree` and `SyncMapleTree`, a concept a file.
//!
//! One program rather than one for each file: what the trees are made of is compiled for each kind of key, value and allocator, and most files
//! use the same kinds. A file of its own next to this folder is a program that needs its process for itself, or kinds that no other has.
//!
//! `cargo test -p maple-tree --test maps gaps::` runs the tests of one file.
//!
//! Sanitizers get the files that have threads, or memory that goes in several ways. Compiling the others for them takes ten minutes; Miri, which sees more, runs
//! them all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod aliasing;
#[cfg(not(sanitized))]
mod alike;
mod at_once;
#[cfg(not(sanitized))]
mod auto_traits;
#[cfg(not(sanitized))]
mod build;
#[cfg(not(sanitized))]
mod cursor;
#[cfg(not(sanitized))]
mod damage;
#[cfg(not(sanitized))]
mod dump;
mod dup;
#[cfg(not(sanitized))]
mod each_map;
#[cfg(not(sanitized))]
mod edges;
#[cfg(not(sanitized))]
mod equal;
#[cfg(not(sanitized))]
mod gaps;
mod halves;
#[cfg(not(sanitized))]
mod hints;
#[cfg(not(sanitized))]
mod iterate;
#[cfg(not(sanitized))]
mod names;
mod pool;
#[cfg(not(sanitized))]
mod random;
#[cfg(all(feature = "serde", not(sanitized)))]
mod serde;
#[cfg(not(sanitized))]
mod slots;
mod staying;
mod stress;
#[path = "../support/mod.rs"]
mod support;
mod values;
