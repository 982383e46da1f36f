//! Random histories.
//!
//! [`op`] chooses which call comes next, as far as the suite ([`suites`]) has it. The generator of each call is in [`calls`]. Those of arguments
//! that make no sense are in [`wrong`], those of mappings whose place the kernel chooses in [`placed`], and groups of calls that make a hole and
//! close it in [`holes`].

mod calls;
mod holes;
mod huge;
mod placed;
#[path = "../../common/rng.rs"]
mod rng;
pub(crate) mod suites;
mod wrong;

use crate::op::Op;
pub(crate) use rng::Rng;
pub(crate) use suites::Mix;

/// The place of dense histories: far from everything that the process uses.
pub(crate) const ARENA: u64 = 0x1_0000_0000;
pub(crate) const PAGE: u64 = 4096;
/// A page of the pool of huge pages.
pub(crate) const HUGE: u64 = 2 << 20;

/// Draws a history of `length` operations. `special` is the range of the areas that the kernel
/// installs at exec, if there are any.
pub(crate) fn history(seed: u64, mix: &Mix, special: Option<(u64, u64)>, length: usize) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mix = Mix {
        special: mix.special.and(special),
        ..*mix
    };
    let mut ops = Vec::with_capacity(length);
    while ops.len() < length {
        match mix.holes && rng.chance(20) {
            true => ops.extend(holes::group(&mut rng, &mix)),
            false => ops.push(op(&mut rng, &mix)),
        }
    }
    ops.truncate(length);
    ops
}

/// The next operation. What is drawn, and in which order, decides which history a seed stands for.
pub(crate) fn op(rng: &mut Rng, mix: &Mix) -> Op {
    if mix.huge {
        return huge::op(rng, mix);
    }
    let (addr, len) = range(rng, mix);
    if mix.wrong && rng.chance(35) {
        return wrong::wrong(rng, mix);
    }
    if mix.places && rng.chance(20) {
        return placed::placed(rng, mix);
    }
    if mix.copies && rng.chance(20) {
        return calls::copy(rng, mix, addr, len);
    }
    if mix.seals && rng.chance(2) {
        return Op::Mseal {
            addr,
            len,
            flags: 0,
        };
    }
    if mix.shm && rng.chance(15) {
        return calls::shm(rng, addr);
    }
    if mix.brk && rng.chance(15) {
        return calls::brk(rng);
    }
    if mix.modes && rng.chance(12) {
        return calls::modes(rng, addr, len);
    }
    if mix.policies && rng.chance(15) {
        return calls::policies(rng, addr, len);
    }
    if mix.limits && rng.chance(4) {
        return calls::limit(rng);
    }
    if mix.watch && rng.chance(25) {
        return calls::watch(rng, addr, len);
    }
    match rng.below(100) {
        0..25 => calls::mmap(rng, mix, addr, len),
        25..35 => Op::Munmap { addr, len },
        35..55 => calls::mprotect(rng, addr, len),
        55..70 => Op::Write { addr },
        70..73 => Op::Read { addr },
        73..75 if mix.forks => rng.pick(&[Op::ForkInto, Op::ForkAside, Op::ForkKeep]),
        75..78 if mix.guards => calls::guards(rng, addr, len),
        75..85 if mix.advice => calls::madvise(rng, mix, addr, len),
        85..90 if mix.locks => calls::lock(rng, mix, addr, len),
        90..98 if mix.remap => calls::mremap(rng, mix, addr, len),
        98 if mix.odd => Op::Msync {
            addr,
            len,
            flags: rng.below(8),
        },
        99 if mix.odd => Op::Mincore { addr, len },
        _ => calls::mprotect(rng, addr, len),
    }
}

fn range(rng: &mut Rng, mix: &Mix) -> (u64, u64) {
    if let Some((low, high)) = mix.special
        && rng.chance(10)
    {
        let pages = (high - low) / PAGE;
        let start = rng.below(pages);
        let len = 1 + rng.below(pages - start);
        return (low + start * PAGE, len * PAGE);
    }
    if mix.sparse {
        const STRIDE: u64 = 0x1_0040_0000;
        let start = rng.below(mix.pages) * STRIDE + rng.below(4) * PAGE;
        let most = if rng.chance(80) { 6 } else { 600 };
        let len = 1 + rng.below(most);
        return (ARENA + start, len * PAGE);
    }
    let start = rng.below(mix.pages);
    let most = (mix.pages - start).min(if rng.chance(80) { 8 } else { mix.pages });
    let len = 1 + rng.below(most);
    (ARENA + start * PAGE, len * PAGE)
}

/// The number of a file that can be mapped.
fn file(rng: &mut Rng, mix: &Mix) -> usize {
    if mix.older || rng.chance(75) {
        1 + rng.below(5) as usize
    } else {
        rng.pick(&[7, 8, 9, 10])
    }
}

fn protection(rng: &mut Rng) -> u64 {
    rng.pick(&[0, 1, 3, 3, 3, 1, 5, 7, 3, 2, 4, 6])
}
