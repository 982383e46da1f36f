//! Code that fuzz targets share.

use samara_memblock::firmware::{ADDRESS_LIMIT, Source, load};
use samara_memblock::{Kind, Memblock, PAGE_SIZE, Storage};

/// Loads a memory map into a memblock, and checks what must hold for any map, however invalid.
pub fn take(source: impl Source) {
    take_and_go_on(source, |_| ());
}

/// As [`take`]; `go_on` does more with the memblock before the checks.
pub fn take_and_go_on(source: impl Source, go_on: impl FnOnce(&mut Memblock<'_>)) {
    source.each(&mut |item| {
        if let Ok(entry) = item {
            assert_eq!(entry.checked(), item);
        }
    });
    let mut storage: Box<Storage<64>> = Box::default();
    let mut boot = Memblock::new(&mut *storage);
    // More regions than fit are an error. What has been loaded by then is valid.
    let full = load(source, &mut boot, |problem| {
        assert!(!problem.to_string().is_empty())
    })
    .is_err();
    go_on(&mut boot);
    for kind in [Kind::Memory, Kind::Reserved] {
        assert_eq!(boot.regions(kind).check(), Ok(()));
    }
    for r in boot.reserved() {
        assert!(r.end() <= ADDRESS_LIMIT);
    }
    for r in boot.memory() {
        assert!(r.end() <= ADDRESS_LIMIT);
        assert!(full || r.base % PAGE_SIZE == 0 && r.size % PAGE_SIZE == 0);
    }
}
