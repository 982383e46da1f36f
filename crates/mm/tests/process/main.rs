//! Processes with pages: what faults, calls and forks do to bytes, entries and counts.

#![allow(clippy::unwrap_used, reason = "tests")]

mod anon;
mod calls;
mod file;
mod fork;
mod world;
