//! The parser of /proc/iomem.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samara_memblock::firmware::iomem;

fuzz_target!(|text: &str| samara_fuzz::take(iomem::lines(text)));
