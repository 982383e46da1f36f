//! What fuzz targets share.

use samara_memblock::firmware::{ADDRESS_LIMIT, Source, load};
use samara_memblock::{Kind, Memblock, PAGE_SIZE, Storage};

/// Takes a memory map into a memblock, and checks what must hold of any map, however absurd.
pub fn take(source: impl Source) {
    take_and_go_on(source, |_| ());
}

/// As [`take`]; `go_on` does more with the memblock before it is checked.
pub fn take_and_go_on(source: impl Source, go_on: impl FnOnce(&mut Memblock<'_>)) {
    source.each(&mut |item| {
        if let Ok(entry) = item {
            assert_eq!(entry.checked(), item);
        }
    });
    let mut storage: Box<Storage<64>> = Box::default();
    let mut boot = Memblock::new(&mut *storage);
    // More regions than fit are an error, and what has been taken in by then is sound.
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
