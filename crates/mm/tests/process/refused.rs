//! Every allocation is refused once, of frames and of the heap: the step fails and has changed nothing that a program can tell, or it succeeds.

use samara_mm::abi::{PROT_NONE, PROT_READ, PROT_WRITE};
use samara_mm::process::{ForkMode, Machine};

use crate::countdown::LEFT;
use crate::model::{Op, World};
use crate::world::{BASE, Hosted, PAGE, free_frames};

const PAGES: usize = 8;

fn random(state: &mut u64, n: u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n) as usize
}

fn any_step(state: &mut u64) -> (usize, Op) {
    let from = random(state, PAGES as u64);
    let to = from + 1 + random(state, (PAGES - from) as u64);
    let other = random(state, PAGES as u64);
    let value = 1 + random(state, 255) as u8;
    let prots = [PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE];
    let op = match random(state, 16) {
        0 => Op::Map(from, to),
        1 => Op::Unmap(from, to),
        2 | 3 => Op::Protect(from, to, prots[random(state, 3)]),
        4 => Op::Discard(from, to),
        5 => Op::Move(from, other),
        6 => Op::Fork(random(state, 3)),
        7 if random(state, 3) == 0 => Op::Exit,
        7..10 => Op::Read(from),
        _ => Op::Write(from, value),
    };
    (random(state, 3), op)
}

fn histories(refuse: impl Fn(&Machine<Hosted>, Option<u32>)) {
    let seeds = if cfg!(miri) { 1..2 } else { 1..6 };
    for mode in [ForkMode::Copy, ForkMode::Share] {
        for beside in [false, true] {
            for seed in seeds.clone() {
                history(mode, beside, seed, &refuse);
            }
        }
    }
}

fn history(
    mode: ForkMode,
    beside: bool,
    seed: u64,
    refuse: &impl Fn(&Machine<Hosted>, Option<u32>),
) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let steps = if cfg!(miri) { 20 } else { 200 };
    let base = BASE - PAGE * PAGES as u64 / 2;
    let mut world = World::new(mode, 3, base, PAGES, 512);
    if beside {
        world.expect_threads();
    }
    for _ in 0..steps {
        let (who, op) = any_step(&mut state);
        if !world.possible(who, op) {
            continue;
        }
        for left in 0.. {
            let outcome = world.step_with(who, op, |machine, begins| {
                refuse(machine, begins.then_some(left));
            });
            world.check();
            if outcome.is_ok() {
                break;
            }
            assert!(left < 1000, "{op:?} never succeeds");
        }
    }
}

#[test]
fn frames() {
    histories(|machine, left| {
        let arena = machine.physical().backing();
        arena.refuse_after(left.map(u64::from));
    });
}

#[test]
fn heap() {
    histories(|_, left| LEFT.set(left));
}

/// With all processes gone, so are all frames.
#[test]
fn nothing_is_left() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let mut state = 77;
        let mut world = World::new(mode, 3, BASE - PAGE, PAGES, 512);
        world.step(0, Op::Exit).unwrap();
        let before = free_frames(&world.machine);
        for seed in 1..20 {
            world = World::new(mode, 3, BASE - PAGE, PAGES, 512);
            state += seed;
            for _ in 0..100 {
                let (who, op) = any_step(&mut state);
                if world.possible(who, op) {
                    world.step(who, op).unwrap();
                }
            }
            for who in 0..3 {
                if world.possible(who, Op::Exit) {
                    world.step(who, Op::Exit).unwrap();
                }
            }
            world.machine.physical().reclaim();
            // The first process had a table when it was counted.
            assert_eq!(free_frames(&world.machine), before);
        }
    }
}
