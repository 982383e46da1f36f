//! Text of a `/proc/PID/smaps`, in one piece or several: accepted, or rejected with the line.
#![no_main]

#[path = "../../tools/samara/tests/hostile/take.rs"]
#[allow(dead_code, reason = "each target has its own reader")]
mod take;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| take::smaps(bytes));
