//! Histories of cursors that move, store and preallocate nodes, compared with a position in a list
//! of ranges.
#![no_main]

#[path = "../../crates/maple-tree/tests/history/mod.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::cursor::play_any(bytes));
