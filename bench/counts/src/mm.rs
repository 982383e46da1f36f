//! System calls on an address space. Each row builds its map, performs the calls within [`measured`], and tells how many
//! there were; a pair that leaves the map as it was counts as one.

use std::hint::black_box;

use samara_bench_data::Random;
use samara_mm::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};

use crate::measured;
use crate::operations::Operation;

/// The rows by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("mm-mix", mix),
    ("mm-map-24", || map_and_unmap(24)),
    ("mm-map-60000", || map_and_unmap(60_000)),
    ("mm-protect-24", || split_and_heal(24)),
    ("mm-protect-60000", || split_and_heal(60_000)),
    ("mm-brk", brk_up_and_down),
];

const PAGE: u64 = 4096;
const READ: u64 = 1;
const READ_WRITE: u64 = 3;
const PRIVATE_ANONYMOUS: u64 = 0x22;
const FIXED: u64 = 0x10;
/// Pairs of calls.
const PAIRS: u32 = 2_000;
/// Calls of the mix, after half as many that bring the map into its usual state.
const MIXED: u32 = 20_000;

fn mmap(addr: u64, len: u64, prot: u64, flags: u64) -> Call {
    Call::Mmap {
        addr,
        len,
        prot,
        flags: PRIVATE_ANONYMOUS | flags,
        file: FileArg::None,
        offset: 0,
    }
}

fn mprotect(addr: u64, len: u64, prot: u64) -> Call {
    Call::Mprotect {
        addr,
        len,
        prot,
        pkey: -1,
    }
}

fn perform(space: &mut AddressSpace, call: &Call) -> Result<u64, Errno> {
    black_box(space.perform(black_box(call)))
}

/// An empty map, in which the heap may begin.
fn empty() -> AddressSpace {
    let config = Config::default();
    match AddressSpace::new(config, Limits::default(), Layout::default()) {
        Ok(space) => space,
        Err(errno) => panic!("no address space: {errno}"),
    }
}

/// Returns `count` areas of four pages, two pages apart, downwards from the top of the window.
/// Every second one is executable instead of writable.
fn populated(areas: u64) -> (AddressSpace, Vec<u64>) {
    let mut space = empty();
    let top = space.layout().mmap_base;
    let starts: Vec<u64> = (0..areas).map(|i| top - (6 * i + 6) * PAGE).collect();
    for (i, &start) in starts.iter().enumerate() {
        let prot = if i % 2 == 0 { READ_WRITE } else { READ | 4 };
        let _ = perform(&mut space, &mmap(start, 4 * PAGE, prot, FIXED));
    }
    (space, starts)
}

/// The mix of the throughput example: random fixed mappings, unmappings, changes of protection and
/// first writes in 256 pages.
fn mix() -> u32 {
    const BASE: u64 = 0x1_0000_0000;
    let mut space = empty();
    let mut random = Random::new(1);
    let mut calls = |space: &mut AddressSpace, n: u32| {
        for _ in 0..n {
            let addr = BASE + random.below(256) * PAGE;
            let len = (1 + random.below(8)) * PAGE;
            let call = match random.below(10) {
                0..4 => mmap(addr, len, READ_WRITE, FIXED),
                4..6 => Call::Munmap { addr, len },
                6..9 => mprotect(addr, len, 1 + 2 * random.below(2)),
                _ => {
                    let _ = black_box(space.fault(addr, true));
                    continue;
                }
            };
            let _ = perform(space, &call);
        }
    };
    calls(&mut space, MIXED / 2);
    measured(|| calls(&mut space, MIXED));
    MIXED
}

/// A page where the kernel likes, and away again.
fn map_and_unmap(areas: u64) -> u32 {
    let (mut space, _) = populated(areas);
    let map = mmap(0, PAGE, READ_WRITE, 0);
    measured(|| {
        for _ in 0..PAIRS {
            if let Ok(addr) = perform(&mut space, &map) {
                let _ = perform(&mut space, &Call::Munmap { addr, len: PAGE });
            }
        }
    });
    PAIRS
}

/// The middle of an area loses the permission to write, which cuts it in three, and gets it back.
fn split_and_heal(areas: u64) -> u32 {
    let (mut space, starts) = populated(areas);
    let mut random = Random::new(1);
    measured(|| {
        for _ in 0..PAIRS {
            let at = 2 * random.below(areas / 2);
            let Some(&start) = starts.get(at as usize) else {
                continue;
            };
            for prot in [READ, READ_WRITE] {
                let _ = perform(&mut space, &mprotect(start + PAGE, PAGE, prot));
            }
        }
    });
    PAIRS
}

/// Four pages more of heap, and back.
fn brk_up_and_down() -> u32 {
    let (mut space, _) = populated(24);
    let base = space.layout().start_brk + 64 * PAGE;
    let _ = perform(&mut space, &Call::Brk { addr: base });
    measured(|| {
        for _ in 0..PAIRS {
            for addr in [base + 4 * PAGE, base] {
                let _ = perform(&mut space, &Call::Brk { addr });
            }
        }
    });
    PAIRS
}
