//! Calls to which memory is refused, once, twice or from some allocation on: what they promise then, and that areas and pages fit each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod each;
mod found;
mod histories;
mod look;
mod memory;
mod op;
mod plan;
mod world;
