//! The boot allocator with as many regions as its first array holds, like those of a firmware's
//! map: ranges of memory with holes between them,
//! some of them adjacent.

use std::hint::black_box;

use samara_bench_data::Random;
use samara_memblock::{Memblock, Storage};

use crate::measured;
use crate::operations::Operation;

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("memblock-add", || add(false)),
    ("memblock-add-random", || add(true)),
    ("memblock-alloc", alloc),
];

/// Ranges that are added.
const RANGES: u64 = 128;
/// The number of memblocks that are filled.
const ROUNDS: u32 = 16;
/// Calls that allocate.
const ALLOCATIONS: u32 = 1_000;

/// Base and size: 1 to 64 MiB, every eighth range adjacent to the one before.
fn ranges(random: &mut Random) -> Vec<(u64, u64)> {
    let mut at = 0x10_0000;
    let range = |i| {
        if i % 8 != 0 {
            at += (1 + random.below(64)) << 12;
        }
        let size = (1 + random.below(64)) << 20;
        at += size;
        (at - size, size)
    };
    (0..RANGES).map(range).collect()
}

fn add(shuffled: bool) -> u32 {
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        let mut ranges = ranges(&mut random);
        if shuffled {
            random.shuffle(&mut ranges);
        }
        let mut storage: Storage = Storage::new();
        let mut boot = Memblock::new(&mut storage);
        measured(|| {
            for &(base, size) in &ranges {
                let added = boot.add(base, size);
                black_box(&added);
            }
        });
        assert_eq!(
            boot.phys_mem_size(),
            ranges.iter().map(|range| range.1).sum::<u64>()
        );
    }
    ROUNDS * RANGES as u32
}

/// Pieces of 64 bytes to 64 KiB, as a kernel takes them before it has another allocator.
fn alloc() -> u32 {
    let mut random = Random::new(1);
    let mut storage: Storage = Storage::new();
    let mut boot = Memblock::new(&mut storage);
    for (base, size) in ranges(&mut random) {
        let _ = boot.add(base, size);
    }
    let sizes: Vec<u64> = (0..ALLOCATIONS).map(|_| 64 << random.below(11)).collect();
    let mut taken = 0;
    measured(|| {
        for &size in &sizes {
            taken += u32::from(boot.phys_alloc(size, 64).is_ok());
        }
    });
    assert_eq!(taken, ALLOCATIONS);
    ALLOCATIONS
}
