//! Histories of processes with pages, compared with plain bytes after each step, with refused
//! memory.
#![no_main]
#![allow(dead_code, reason = "the tests use more of it")]

#[path = "../../crates/mm/tests/process/beyond.rs"]
mod beyond;
#[path = "../../crates/mm/tests/process/countdown.rs"]
mod countdown;
#[path = "../../crates/mm/tests/process/history/mod.rs"]
mod history;
#[path = "../../crates/mm/tests/process/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::play(bytes));
