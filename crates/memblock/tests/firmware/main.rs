//! Memory maps: real ones, and ones that no firmware should write.

#![cfg(all(feature = "fdt", feature = "uefi"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod devicetree;
mod entries;
mod pvh;
mod tables;
mod tree;
mod uefi;

use std::path::Path;

use samara_memblock::firmware::{Entry, Item, Problem, Source, Use, load};
use samara_memblock::{Flags, Kind, Memblock, NodeId, Storage};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap()
}

/// Ranges of memory and reservations, sizes of memory that must not be mapped, and problems.
#[derive(Debug, Default)]
struct Taken {
    memory: Vec<(u64, u64, i32)>,
    reserved: Vec<(u64, u64)>,
    nomap: u64,
    total: u64,
    problems: Vec<Problem>,
}

fn take(source: impl Source) -> Taken {
    let mut storage: Box<Storage<1024>> = Box::default();
    let mut m = Memblock::new(&mut *storage);
    let mut taken = Taken::default();
    load(source, &mut m, |p| taken.problems.push(p)).unwrap();
    for kind in [Kind::Memory, Kind::Reserved] {
        assert_eq!(m.regions(kind).check(), Ok(()));
    }
    taken.memory = m
        .memory()
        .iter()
        .map(|r| (r.base, r.end(), r.nid.0))
        .collect();
    taken.reserved = m.reserved().iter().map(|r| (r.base, r.end())).collect();
    taken.nomap = m
        .memory()
        .iter()
        .filter(|r| r.flags.contains(Flags::NOMAP))
        .map(|r| r.size)
        .sum();
    taken.total = m.phys_mem_size();
    taken
}

fn items(entries: &[(u64, u64, Use)]) -> Vec<Item> {
    entries
        .iter()
        .map(|&(base, size, usage)| {
            Ok(Entry {
                base,
                size,
                usage,
                nid: NodeId::NONE,
            })
        })
        .collect()
}

fn take_items(entries: &[(u64, u64, Use)]) -> Taken {
    take(items(entries).into_iter())
}
