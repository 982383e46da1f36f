//! The parser of device trees.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samara_memblock::firmware::devicetree::DeviceTree;

fuzz_target!(|blob: &[u8]| {
    if let Ok(tree) = DeviceTree::new(blob) {
        samara_fuzz::take(tree);
    }
});
