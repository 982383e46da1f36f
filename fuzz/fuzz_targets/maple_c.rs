//! Histories of calls of the maple tree's C interface, compared with a list of ranges after each call, with allocations that fail.
#![no_main]

#[path = "../../crates/capi/tests/history/mod.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::play(bytes));
