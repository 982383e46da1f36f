//! Random histories of calls to which memory is refused.

use crate::op::{Op, Random};
use crate::plan::Plan;
use crate::world::{SLOTS, STRETCH, World};

const FRAMES: usize = 12 << 10;

/// Which allocations of a call are refused.
fn plan(random: &mut Random) -> Plan {
    let mut number = || match random.below(3) {
        0 => random.below(3),
        1 => random.below(12),
        _ => random.below(80),
    };
    let (first, gap) = (number(), number());
    let second = first + 1 + gap;
    let mut ranges = match random.below(4) {
        0 => [first..u64::MAX, 0..0],
        1 => [first..first + 1, second..u64::MAX],
        2 => [first..first + 2, second + 1..second + 3],
        _ => [first..first + 1, second..second + 1],
    };
    match random.below(8) {
        0 => {
            // Frames as a rule are asked for twice, heap is not.
            if random.below(2) == 0 {
                ranges = [first..first + 1, 0..0];
            }
            Plan::heap(ranges)
        }
        1..3 => Plan::NONE,
        _ => Plan::frames(ranges),
    }
}

struct Played(u64, Vec<(usize, Op, Plan)>);

impl Drop for Played {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, step {}", self.0, self.1.len());
            crate::repeat::print(&format!(
                "SAMARA_REFUSALS_SEED={} SAMARA_REFUSALS_SEEDS=1 cargo test --release -p samara-mm --features hosted --test refusals -- --ignored --exact histories::pairs_of_refusals_for_long",
                self.0
            ));
            if std::env::var_os("SAMARA_REFUSALS_SHOW").is_some() {
                for (who, op, plan) in &self.1 {
                    eprintln!("{who}: {op:x?} refusing {plan:?}");
                }
            }
        }
    }
}

/// Plays a history; how many calls have been refused memory and failed.
fn play(seed: u64, steps: usize) -> usize {
    let mut random = Random::new(seed);
    let mut world = World::new(FRAMES);
    // Those of the first process's table, too.
    let free = world.machine.physical().backing().free_frames() + 1;
    let mut played = Played(seed, Vec::new());
    let mut failed = 0;
    while played.1.len() < steps {
        let who = random.below(SLOTS as u64) as usize;
        let op = random.op();
        if !world.is_possible(who, &op) {
            continue;
        }
        let plan = plan(&mut random);
        played.1.push((who, op.clone(), plan.clone()));
        let outcome = world.step(who, &op, &plan);
        let refused = outcome.frames.refused + outcome.heap.refused > 0;
        failed += usize::from(refused && outcome.result.is_err());
    }
    let machine = world.machine.clone();
    drop(world);
    machine.physical().reclaim();
    let left = machine.physical().backing().free_frames();
    // The machine keeps a huge page of zeroes if one was ever used.
    let all = left == free || left + STRETCH == free;
    assert!(all, "{left} of {free} frames are free in the end");
    failed
}

/// A number from the environment.
fn given(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

#[test]
fn pairs_of_refusals() {
    let (seeds, steps) = if cfg!(miri) { (1, 20) } else { (6, 300) };
    for seed in 0..seeds {
        let failed = play(seed, steps);
        assert!(cfg!(miri) || failed > steps / 100, "only {failed} failed");
    }
}

/// `SAMARA_REFUSALS_SEEDS` and `SAMARA_REFUSALS_SEED` choose how many, and from which on.
#[test]
#[ignore = "takes minutes"]
fn pairs_of_refusals_for_long() {
    let first = given("SAMARA_REFUSALS_SEED", 1000);
    let mut failed = 0;
    for seed in first..first + given("SAMARA_REFUSALS_SEEDS", 100) {
        failed += play(seed, given("SAMARA_REFUSALS_STEPS", 6000) as usize);
    }
    println!("{failed} calls failed");
}
