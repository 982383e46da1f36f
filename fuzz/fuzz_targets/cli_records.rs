//! Records of a trace in a complete file: performed and drawn, or rejected with the byte.
#![no_main]

#[path = "../../tools/samara/tests/hostile/take.rs"]
#[allow(dead_code, reason = "each target has its own reader")]
mod take;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| take::any_records(bytes));
