//! Histories of a family of `CowMapleTree`s that share nodes, with conversions, threads, and refusals at each place.
#![no_main]

#[path = "../../crates/maple-tree/tests/history/mod.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::snap::play_any(bytes));
