//! The parsers of UEFI memory maps: text, and descriptors of any stride.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samara_memblock::firmware::uefi;

fuzz_target!(|map: &[u8]| {
    if let Ok(text) = std::str::from_utf8(map) {
        samara_fuzz::take(uefi::lines(text));
    }
    let guess = uefi::Descriptors::guess_stride(map).unwrap_or(40);
    for stride in [guess, usize::from(map.first().copied().unwrap_or(0))] {
        samara_fuzz::take(uefi::Descriptors::new(map, stride));
    }
});
