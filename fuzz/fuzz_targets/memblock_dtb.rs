//! The parser of device trees, and the placement of reservations without an address.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samara_memblock::firmware::devicetree::DeviceTree;

fuzz_target!(|blob: &[u8]| {
    if let Ok(tree) = DeviceTree::new(blob) {
        samara_fuzz::take_and_go_on(tree, |boot| {
            tree.dynamic_reservations(&mut |wanted| {
                let Ok(wanted) = wanted else { return };
                if let Ok(at) = wanted.place(boot) {
                    assert_eq!(at % wanted.alignment, 0);
                    assert!(boot.is_memory(at));
                }
            });
        });
    }
});
