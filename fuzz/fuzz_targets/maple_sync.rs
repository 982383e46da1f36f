//! Histories of a `SyncMapleTree` with readers, an iterator and a cursor that stay open during
//! writes.
#![no_main]

#[path = "../../crates/maple-tree/tests/history/mod.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history::sync::play_any(bytes));
