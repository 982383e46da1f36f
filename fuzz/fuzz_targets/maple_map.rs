//! Histories of a `MapleTree`, compared with a list of ranges after each call, with allocations that fail.
#![no_main]

#[path = "../../crates/maple-tree/tests/history/mod.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::map::play_any(bytes));
