//! Processes with pages: what faults, calls and forks do to bytes, entries and counts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod advice;
mod anon;
mod beside;
mod beyond;
mod calls;
mod context;
mod countdown;
mod cut;
mod discard;
mod exhaustive;
mod exit;
mod file;
mod fork;
mod frame;
mod half;
mod highest;
mod histories;
mod history;
mod huge;
mod kernel;
mod ksm;
mod linux;
mod model;
mod nested;
mod observe;
mod pin;
#[cfg(feature = "exec")]
mod program;
mod refused;
#[path = "../common/repeat.rs"]
mod repeat;
#[path = "../common/rng.rs"]
mod rng;
mod second;
mod soft;
#[path = "../pages/steady.rs"]
mod steady;
mod swap;
mod threads;
mod transfer;
mod walkers;
mod world;
