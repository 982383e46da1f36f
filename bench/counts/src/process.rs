//! Faults, forks and calls of processes with pages. Faults are counted with what they do to the bytes: a page that is cleared or copied is a part of it.
//!
//! Rows that end in `-alone` are of processes that expect several threads: their faults take no lock of the address space.

use std::hint::black_box;

use samara_mm::abi::MapFlags;
use samara_mm::process::{Access, ForkMode, HostLock, Hosted, Machine, Process, SoftTlb, Vcpus};
use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
use samara_paging::{Arena, HeapBytes};

use crate::measured;
use crate::operations::Operation;

/// The rows by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("fault-anon", || first_writes(false)),
    ("fault-anon-alone", || first_writes(true)),
    ("fault-again", || faults_again(false)),
    ("fault-again-alone", || faults_again(true)),
    ("fault-copy", || second_writes(Child::Stays, false)),
    ("fault-copy-alone", || second_writes(Child::Stays, true)),
    ("fault-reuse", || second_writes(Child::Exits, false)),
    ("fault-reuse-alone", || second_writes(Child::Exits, true)),
    ("fault-shared", shared_stretches),
    ("fork-page", || fork_pages(ForkMode::Copy)),
    ("fork-shared-page", || fork_pages(ForkMode::Share)),
    ("exit-page", exit_pages),
    ("fork-area-24", || fork_areas(24)),
    ("fork-area-4022", || fork_areas(4_022)),
    ("page-24", || map_and_unmap(24, false, false)),
    ("page-60000", || map_and_unmap(60_000, false, false)),
    ("page-24-alone", || map_and_unmap(24, false, true)),
    ("page-written-24", || map_and_unmap(24, true, false)),
    ("page-written-60000", || map_and_unmap(60_000, true, false)),
    ("populate-page", || ranges(Step::Populate)),
    ("protect-page", || ranges(Step::Protect)),
    ("unmap-page", || ranges(Step::Unmap)),
    ("soft-load", || soft(Guest::Load)),
    ("soft-store", || soft(Guest::Store)),
    ("soft-fetch", || soft(Guest::Fetch)),
    ("soft-run", || soft(Guest::Run)),
    ("soft-miss", || soft(Guest::Miss)),
];

const PAGE: u64 = 4096;
const STRETCH: u64 = 512 * PAGE;
/// The address of the counted pages.
const BASE: u64 = 0x10_0000_0000;
/// The address of the other areas.
const OTHERS: u64 = 0x2_0000_0000;
/// Areas of a process that takes faults.
const AREAS: u64 = 1_000;
/// Faults that are counted.
const PAGES: u64 = 2_048;
/// Pages of a process that forks.
const TOUCHED: u64 = 16 * 512;

fn machine(frames: u64) -> Machine<Hosted> {
    match Arena::on_heap(frames as usize).map(Machine::over) {
        Ok(Ok(machine)) => machine,
        _ => panic!("no memory"),
    }
}

/// Returns a process with `areas` areas of four pages, and one of `pages` at [`BASE`].
fn process(machine: &Machine<Hosted>, areas: u64, pages: u64) -> Process<Hosted> {
    let process = Process::new(
        machine,
        Config::default(),
        Limits::default(),
        Layout::default(),
    );
    let Ok(process) = process else {
        panic!("no memory");
    };
    for i in 0..areas {
        let prot = if i % 2 == 0 {
            Prot::READ | Prot::WRITE
        } else {
            Prot::READ
        };
        let area = MmapOptions::anonymous(4 * PAGE).prot(prot);
        let _ = process.mmap(&area.fixed(OTHERS + 6 * PAGE * i));
    }
    if pages > 0 {
        let area = MmapOptions::anonymous(pages * PAGE).prot(Prot::READ | Prot::WRITE);
        let _ = process.mmap(&area.fixed(BASE));
        // The area has its owner of private pages, and its first table is there.
        write(&process, 0);
    }
    process
}

fn write(process: &Process<Hosted>, page: u64) {
    let _ = black_box(process.fault(BASE + page * PAGE, Access::WRITE));
}

/// Pages in an order that is not that of their addresses.
fn shuffled() -> impl Iterator<Item = u64> {
    (1..PAGES).map(|i| 1 + i * 1_117 % (PAGES - 1))
}

fn first_writes(alone: bool) -> u32 {
    let machine = machine(PAGES + 64);
    let process = process(&machine, AREAS, PAGES);
    if alone {
        process.expect_threads();
    }
    for stretch in 1..PAGES / 512 {
        write(&process, stretch * 512 + 511);
    }
    let pages: Vec<u64> = shuffled().filter(|page| page % 512 != 511).collect();
    measured(|| pages.iter().for_each(|&page| write(&process, page)));
    pages.len() as u32
}

/// Faults that find the page already there: what all have in common.
fn faults_again(alone: bool) -> u32 {
    let machine = machine(PAGES + 64);
    let process = process(&machine, AREAS, PAGES);
    (0..PAGES).for_each(|page| write(&process, page));
    if alone {
        process.expect_threads();
    }
    measured(|| shuffled().for_each(|page| write(&process, page)));
    (PAGES - 1) as u32
}

#[derive(PartialEq)]
enum Child {
    Stays,
    Exits,
}

/// Writes after a fork: the page is copied, or used again if the child has gone.
fn second_writes(child: Child, alone: bool) -> u32 {
    let machine = machine(2 * PAGES + 64);
    let process = process(&machine, AREAS, PAGES);
    (0..PAGES).for_each(|page| write(&process, page));
    if alone {
        process.expect_threads();
    }
    let mut other = process.fork(ForkMode::Copy).ok();
    if child == Child::Exits {
        other = None;
    }
    measured(|| shuffled().for_each(|page| write(&process, page)));
    drop(other);
    (PAGES - 1) as u32
}

/// The first write to each stretch of a table that is shared.
fn shared_stretches() -> u32 {
    let machine = machine(TOUCHED + 128);
    let process = process(&machine, AREAS, TOUCHED);
    (0..TOUCHED).for_each(|page| write(&process, page));
    let child = process.fork(ForkMode::Share);
    let stretches = TOUCHED * PAGE / STRETCH;
    measured(|| (0..stretches).for_each(|stretch| write(&process, stretch * 512)));
    drop(child);
    stretches as u32
}

fn fork_pages(mode: ForkMode) -> u32 {
    let machine = machine(TOUCHED + 128);
    let process = process(&machine, 24, TOUCHED);
    (0..TOUCHED).for_each(|page| write(&process, page));
    let mut child = None;
    measured(|| child = process.fork(mode).ok());
    drop(child);
    TOUCHED as u32
}

fn exit_pages() -> u32 {
    let machine = machine(TOUCHED + 128);
    let process = process(&machine, 24, TOUCHED);
    (0..TOUCHED).for_each(|page| write(&process, page));
    let mut child = process.fork(ForkMode::Copy).ok();
    measured(|| child = None);
    drop(child);
    TOUCHED as u32
}

/// Forks of areas without pages.
fn fork_areas(areas: u64) -> u32 {
    const FORKS: u64 = 8;
    let machine = machine(256);
    let process = process(&machine, areas, 0);
    let mut children = Vec::with_capacity(FORKS as usize);
    measured(|| (0..FORKS).for_each(|_| children.push(process.fork(ForkMode::Copy))));
    drop(children);
    (FORKS * areas) as u32
}

/// A page where the kernel likes, written or not, and away again.
fn map_and_unmap(areas: u64, written: bool, alone: bool) -> u32 {
    const PAIRS: u32 = 1_000;
    let machine = machine(256);
    let process = process(&machine, areas, 8);
    if alone {
        process.expect_threads();
    }
    // What every program has: a page at the top, where new mappings go.
    let code = MmapOptions::anonymous(16 * PAGE).prot(Prot::READ | Prot::WRITE | Prot::EXEC);
    if let Ok(top) = process.mmap(&code) {
        let _ = process.fault(top, Access::WRITE);
    }
    let page = MmapOptions::anonymous(PAGE).prot(Prot::READ | Prot::WRITE);
    let pair = || {
        if let Ok(addr) = process.mmap(&page) {
            if written {
                let _ = black_box(process.fault(addr, Access::WRITE));
            }
            let _ = process.munmap(addr, PAGE);
        }
    };
    pair();
    measured(|| (0..PAIRS).for_each(|_| pair()));
    PAIRS
}

/// The counted step on a range of pages.
#[derive(Clone, Copy)]
enum Step {
    Populate,
    Protect,
    Unmap,
}

/// Ranges of pages apart from one another, each mapped with its pages, protected and unmapped by one call; one of these steps is counted, by the page.
fn ranges(step: Step) -> u32 {
    const RANGE: u64 = 64;
    const RANGES: u64 = 64;
    let machine = machine(RANGE * RANGES + 256);
    let process = process(&machine, 24, 0);
    let area = MmapOptions::anonymous(RANGE * PAGE)
        .prot(Prot::READ | Prot::WRITE)
        .flags(MapFlags::POPULATE);
    let each = |act: &mut dyn FnMut(u64)| {
        (0..RANGES).for_each(|i| act(BASE + i * 2 * RANGE * PAGE));
    };
    let mut populate = |addr| _ = black_box(process.mmap(&area.clone().fixed(addr)));
    let mut protect = |addr| _ = black_box(process.mprotect(addr, RANGE * PAGE, Prot::READ));
    let mut unmap = |addr| _ = black_box(process.munmap(addr, RANGE * PAGE));
    match step {
        Step::Populate => measured(|| each(&mut populate)),
        Step::Protect => {
            each(&mut populate);
            measured(|| each(&mut protect));
        }
        Step::Unmap => {
            each(&mut populate);
            measured(|| each(&mut unmap));
        }
    }
    (RANGE * RANGES) as u32
}

/// Accesses of a guest to pages that are mapped.
#[derive(Clone, Copy)]
enum Guest {
    /// Hits of the soft TLB.
    Load,
    Store,
    Fetch,
    /// A load in a section of its own.
    Run,
    /// Loads of more pages than are remembered.
    Miss,
}

fn soft(guest: Guest) -> u32 {
    type Emulator = Hosted<HeapBytes, Vcpus<HostLock>>;
    const LOADS: u64 = 2_000;
    let pages = if matches!(guest, Guest::Miss) {
        PAGES
    } else {
        64
    };
    let arena = Arena::on_heap(PAGES as usize + 64);
    let (Ok(arena), Ok(vcpus)) = (arena, Vcpus::new(8)) else {
        panic!("no memory");
    };
    let process = Machine::<Emulator>::over_with(arena, vcpus).and_then(|machine| {
        let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
        Process::new(&machine, config, limits, layout)
    });
    let Ok(process) = process else {
        panic!("no memory");
    };
    let prot = Prot::READ | Prot::WRITE | Prot::EXEC;
    let area = MmapOptions::anonymous(pages * PAGE).prot(prot);
    let _ = process.mmap(&area.fixed(BASE));
    let Ok(mut vcpu) = SoftTlb::new(&process) else {
        panic!("no memory");
    };
    let at = |i: u64| BASE + i % pages * PAGE + i % 512 * 8;
    // Each page is there, has been written and fetched, and is remembered if there is room.
    vcpu.run(|memory| {
        for page in 0..pages {
            let _ = black_box(memory.store(at(page), page));
        }
    });
    let all: Vec<u64> = (0..LOADS).map(at).collect();
    let each = |access: &mut dyn FnMut(&[u64])| measured(|| access(black_box(&all)));
    match guest {
        // With more pages than are remembered: the place of page `i` has page `i + 1,024`, and the other way round.
        Guest::Load | Guest::Miss => vcpu.run(|memory| {
            each(&mut |all| {
                all.iter()
                    .for_each(|&at| _ = black_box(memory.load::<u64>(at)));
            });
        }),
        Guest::Store => vcpu.run(|memory| {
            each(&mut |all| {
                all.iter()
                    .for_each(|&at| _ = black_box(memory.store(at, at)))
            });
        }),
        Guest::Fetch => vcpu.run(|memory| {
            each(&mut |all| {
                all.iter()
                    .for_each(|&at| _ = black_box(memory.fetch::<u32>(at)));
            });
        }),
        Guest::Run => each(&mut |all| {
            all.iter().for_each(|&at| {
                _ = black_box(vcpu.run(|memory| memory.load::<u64>(at)));
            });
        }),
    }
    LOADS as u32
}
