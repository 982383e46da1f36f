//! Long random histories of three address spaces, with huge pages, markers, shared and zero pages,
//! and with every allocation of every step refused.
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{Error, Format, UnmapFilter};
use world::{Protection, Random, World, heap, under_kernel};

/// The pages of the histories: the end of one 2 MiB region, two whole ones, and the start of a
/// fourth.
const END: u64 = 1 + 512 * 2 + 8;

fn page(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => random.below(4) + 1,
        2 => 512 + random.below(4),
        _ => 1024 + random.below(8),
    }
}

fn pages(random: &mut Random) -> std::ops::Range<u64> {
    let ends = [0, 1, 2, 3, 511, 513, 514, 1023, 1025, 1026, END];
    let a = ends[random.below(11) as usize];
    let b = ends[random.below(11) as usize];
    a.min(b)..a.max(b)
}

/// A step that allocates. Its choices are made in advance, so that it can be repeated.
#[derive(Clone, Debug)]
enum Step {
    Map(usize, u64),
    Shared(usize, u64, usize, bool),
    Zero(usize, u64),
    Mark(usize, u64),
    Huge(usize, u64),
    Unmap(usize, std::ops::Range<u64>),
    UnmapFilter(usize, std::ops::Range<u64>, UnmapFilter),
    Protect(usize, std::ops::Range<u64>, Protection),
    Move(usize, u64, u64, u64),
    Fork(usize, usize, bool),
    Write(usize, u64),
}

fn marker_at(page: u64) -> u32 {
    page as u32 * 7
}

fn step(random: &mut Random) -> Step {
    let s = random.below(3) as usize;
    let how = [Protection::None, Protection::Read, Protection::Write][random.below(3) as usize];
    match random.below(20) {
        0..=3 => Step::Map(s, page(random)),
        4 => Step::Shared(
            s,
            page(random),
            random.below(3) as usize,
            random.below(2) == 0,
        ),
        5 => Step::Zero(s, page(random)),
        6 => Step::Mark(s, page(random)),
        7 => Step::Huge(s, 1 + 512 * random.below(2)),
        8 => Step::Unmap(s, pages(random)),
        9 => {
            let pages = pages(random);
            let marker = UnmapFilter::Marker(marker_at(pages.start));
            let takes = [UnmapFilter::Pages, UnmapFilter::FilePages, marker];
            Step::UnmapFilter(s, pages, takes[random.below(3) as usize])
        }
        10 | 11 => Step::Protect(s, pages(random), how),
        12 => Step::Move(s, 1, 513, 512),
        13 => {
            let (from, to) = (page(random), page(random));
            let len = [1, 2, 511, 512][random.below(4) as usize];
            Step::Move(s, from, to, len.min(END - from.max(to)))
        }
        14 | 15 => Step::Fork(
            s,
            (s + 1 + random.below(2) as usize) % 3,
            random.below(3) > 0,
        ),
        _ => Step::Write(s, page(random)),
    }
}

fn perform<F: Format, S: samara_paging::Bytes>(
    world: &mut World<F, samara_paging::Arena<S>>,
    step: &Step,
) -> Result<(), Error> {
    match *step {
        Step::Map(s, page) => world.map(s, page),
        Step::Shared(s, page, file, write) => world.map_shared(s, page, file, write),
        Step::Zero(s, page) => world.map_zero(s, page),
        Step::Mark(s, page) => world.mark(s, page, marker_at(page)),
        Step::Huge(s, page) => world.map_huge(s, page),
        Step::Unmap(s, ref pages) => world.unmap(s, pages.clone()),
        Step::UnmapFilter(s, ref pages, take) => world.take(s, pages.clone(), take),
        Step::Protect(s, ref pages, how) => world.protect(s, pages.clone(), how),
        Step::Move(s, from, to, len) => world.move_range(s, from, to, len),
        Step::Fork(s, child, share) => world.fork(s, child, share, END),
        Step::Write(s, page) => world.write(s, page).map(|_| ()),
    }
}

fn history<F: Format, S: samara_paging::Bytes>(
    mut world: World<F, samara_paging::Arena<S>>,
    seed: u64,
    steps: u32,
    refuse: bool,
) {
    let mut random = Random(seed);
    for _ in 0..steps {
        if random.below(6) == 0 {
            world.kernel_step(&mut random);
        }
        if random.below(12) == 0 {
            world.exit(random.below(3) as usize);
            continue;
        }
        let step = step(&mut random);
        if let Step::Fork(_, child, _) = step {
            // A child is usually new. Sometimes it is not, and the fork is refused.
            if random.below(4) > 0 {
                world.exit(child);
            }
        }
        let result = if refuse {
            world.refused(|world| perform(world, &step))
        } else {
            perform(&mut world, &step)
        };
        assert!(
            matches!(result, Ok(()) | Err(Error::Exists)),
            "{step:?} {result:?}"
        );
        world.check();
    }
    world.end();
}

fn histories<F: Format>(count: u64, steps: u32) {
    for seed in 1..=count {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let frames = if cfg!(miri) { 1536 } else { 6144 };
        history(heap::<F>(frames, 3), seed, steps, seed & 2 == 0);
        history(under_kernel::<F>(frames, 3), seed, steps, seed & 2 == 0);
    }
}

const COUNT: u64 = if cfg!(miri) { 1 } else { 4 };
const STEPS: u32 = if cfg!(miri) { 12 } else { 120 };

#[test]
fn x86_64() {
    histories::<X86_64>(COUNT, STEPS);
}

#[test]
fn x86_64_with_five_levels() {
    histories::<X86_64La57>(COUNT, STEPS);
}

#[test]
fn aarch64() {
    histories::<Aarch64>(COUNT, STEPS);
}

#[test]
fn sv39() {
    histories::<Sv39>(COUNT, STEPS);
}

#[test]
fn sv48() {
    histories::<Sv48>(COUNT, STEPS);
}

/// `cargo test --release -p samara-paging --test random -- --ignored`.
#[test]
#[ignore = "minutes"]
fn long() {
    histories::<X86_64>(100, 1000);
    histories::<Aarch64>(50, 1000);
    histories::<Sv39>(100, 1000);
}
