//! Text of strace, or a whole recording: performed and drawn, or rejected with the position.
#![no_main]

#[path = "../../tools/samara/tests/hostile/take.rs"]
#[allow(dead_code, reason = "each target has its own reader")]
mod take;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| take::recording(bytes));
