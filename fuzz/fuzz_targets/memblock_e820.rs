//! The parser of e820 lists.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samara_memblock::firmware::e820;

fuzz_target!(|text: &str| samara_fuzz::take(e820::lines(text)));
