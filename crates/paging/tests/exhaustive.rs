//! Every short history of two address spaces with three pages on both sides of a boundary between
//! tables.
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{Error, Format, UnmapFilter};
use world::{Protection, heap};

#[derive(Clone, Copy, Debug)]
enum Step {
    Map(usize, u64),
    MapShared(usize, u64),
    Unmap(usize, u64, u64),
    Discard(usize, u64, u64, UnmapFilter),
    Protect(usize, u64, u64, Protection),
    Move(usize, u64, u64, u64),
    Fork(usize, bool),
    Write(usize, u64),
    Exit(usize),
}

/// Returns the steps. The base lies one page below a boundary: page 0 is the last of one table,
/// pages 1 and 2 are the first of the next.
fn steps() -> Vec<Step> {
    use Step::*;
    let mut steps = Vec::new();
    for s in 0..2 {
        for page in 0..3 {
            steps.push(Map(s, page));
            steps.push(Write(s, page));
        }
        steps.push(MapShared(s, 1));
        steps.push(Unmap(s, 0, 1));
        steps.push(Unmap(s, 1, 2));
        steps.push(Unmap(s, 0, 3));
        steps.push(Discard(s, 0, 2, UnmapFilter::FilePages));
        steps.push(Discard(s, 1, 513, UnmapFilter::Pages));
        steps.push(Protect(s, 0, 2, Protection::Read));
        steps.push(Protect(s, 1, 3, Protection::Write));
        steps.push(Protect(s, 0, 3, Protection::None));
        steps.push(Move(s, 0, 1, 1));
        steps.push(Move(s, 0, 2, 1));
        steps.push(Move(s, 1, 512 + 1, 512));
        steps.push(Move(s, 1, 512 + 2, 2));
        steps.push(Fork(s, false));
        steps.push(Fork(s, true));
        steps.push(Exit(s));
    }
    steps
}

fn histories<F: Format>(length: u32) {
    let steps = steps();
    let total = steps.len().pow(length);
    for number in 0..total {
        let mut rest = number;
        let mut world = heap::<F>(48, 2);
        let mut history = Vec::new();
        for _ in 0..length {
            let step = steps[rest % steps.len()];
            rest /= steps.len();
            history.push(step);
            let result = match step {
                Step::Map(s, page) => world.map(s, page),
                Step::MapShared(s, page) => world.map_shared(s, page, 0, true),
                Step::Unmap(s, from, to) => world.unmap(s, from..to),
                Step::Discard(s, from, to, take) => world.take(s, from..to, take),
                Step::Protect(s, from, to, how) => world.protect(s, from..to, how),
                Step::Move(s, from, to, len) => world.move_range(s, from, to, len),
                Step::Fork(s, share) => world.fork(s, 1 - s, share, 513),
                Step::Write(s, page) => world.write(s, page).map(|_| ()),
                Step::Exit(s) => {
                    world.exit(s);
                    Ok(())
                }
            };
            if let Err(error) = result {
                assert_eq!(error, Error::Exists, "{history:?}");
                // Nothing happened: the rest is another history.
                break;
            }
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.check()));
        assert!(checked.is_ok(), "{} {history:?}", F::NAME);
        world.end();
    }
}

#[test]
fn two_steps_in_every_format() {
    if cfg!(miri) {
        histories::<X86_64>(1);
        histories::<Sv39>(1);
        return;
    }
    histories::<X86_64>(2);
    histories::<X86_64La57>(2);
    histories::<Aarch64>(2);
    histories::<Sv39>(2);
    histories::<Sv48>(2);
}

/// 64,000 histories of each: `cargo test --release -p samara-paging --test exhaustive -- --ignored three`.
#[test]
#[ignore = "a minute"]
fn three_steps() {
    histories::<X86_64>(3);
    histories::<Aarch64>(3);
    histories::<Sv39>(3);
}

/// 2,560,000 histories: `cargo test --release -p samara-paging --test exhaustive -- --ignored four`.
#[test]
#[ignore = "many minutes"]
fn four_steps() {
    histories::<X86_64>(4);
}
