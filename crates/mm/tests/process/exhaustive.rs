//! Every history of small size: two processes, three pages, a boundary of tables between the first and the second.

use samara_mm::abi::{PROT_READ, PROT_WRITE};
use samara_mm::process::ForkMode;

use crate::model::{Op, World};
use crate::world::{BASE, PAGE};

const PAGES: usize = 3;
const MODES: [ForkMode; 2] = [ForkMode::Copy, ForkMode::Share];
/// Steps of each history, after the beginning: most, and where that would take long.
const LONG: usize = if cfg!(miri) { 1 } else { 3 };
const SHORT: usize = if cfg!(miri) { 1 } else { 2 };

fn steps() -> Vec<(usize, Op)> {
    let mut steps = Vec::new();
    for who in 0..2 {
        let mut add = |op| steps.push((who, op));
        add(Op::Fork(1 - who));
        add(Op::Exit);
        add(Op::Map(0, PAGES));
        add(Op::Move(0, 2));
        add(Op::Protect(0, PAGES, PROT_READ));
        add(Op::Protect(1, PAGES, PROT_READ | PROT_WRITE));
        add(Op::Discard(0, 2));
        add(Op::Unmap(1, 2));
        for page in 0..PAGES {
            add(Op::Write(page, 10 * (who as u8 + 1) + page as u8));
        }
        add(Op::Read(0));
    }
    steps
}

const GROWN_APART: [(usize, Op); 6] = [
    (0, Op::Map(0, PAGES)),
    (0, Op::Write(0, 1)),
    (0, Op::Write(1, 2)),
    (0, Op::Fork(1)),
    (1, Op::Write(0, 5)),
    (0, Op::Move(1, 2)),
];

/// All histories that begin so.
fn all<const LENGTH: usize>(beginning: &[(usize, Op)]) {
    let steps = steps();
    for mode in MODES {
        let mut picks = [0; LENGTH];
        'next: loop {
            let mut world = World::new(mode, 2, BASE - PAGE, PAGES, 28);
            let history = beginning
                .iter()
                .chain(picks.iter().map(|&pick| &steps[pick]));
            for (number, &(who, op)) in history.enumerate() {
                if !world.possible(who, op) {
                    continue;
                }
                world.step(who, op).unwrap();
                // What comes before was looked at in an earlier history.
                if number + 1 == beginning.len() + LENGTH {
                    world.check();
                }
            }
            for pick in picks.iter_mut().rev() {
                *pick += 1;
                if *pick < steps.len() {
                    continue 'next;
                }
                *pick = 0;
            }
            break;
        }
    }
}

#[test]
fn from_nothing() {
    all::<LONG>(&[]);
}

#[test]
fn from_a_family() {
    all::<LONG>(&[
        (0, Op::Map(0, PAGES)),
        (0, Op::Read(1)),
        (0, Op::Write(0, 1)),
        (0, Op::Write(2, 3)),
        (0, Op::Fork(1)),
    ]);
}

#[test]
fn from_a_family_that_has_grown_apart() {
    all::<SHORT>(&GROWN_APART);
}

#[test]
#[ignore = "half a minute"]
fn from_a_family_that_has_grown_apart_for_long() {
    all::<LONG>(&GROWN_APART);
}
