//! Calls to which memory is refused, once, twice or from some allocation on: their promises hold,
//! and areas and pages fit each other. Also calls that are refused for other reasons, compared with
//! the kernel.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod each;
mod found;
mod histories;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod kernel;
mod look;
mod memory;
mod op;
mod plan;
#[path = "../common/repeat.rs"]
mod repeat;
#[path = "../common/rng.rs"]
mod rng;
mod world;
