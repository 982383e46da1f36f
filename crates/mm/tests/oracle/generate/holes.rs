//! A hole in what is mapped, and what closes it. Whose the private pages around it are decides what joins.

use super::rng::Rng;
use super::suites::Mix;
use super::{ARENA, PAGE, file, range};
use crate::op::Op;

/// Makes a hole at a page, lets the process write, fork and write again, and closes the hole in one of all ways.
pub(super) fn group(rng: &mut Rng, mix: &Mix) -> Vec<Op> {
    let hole = ARENA + (2 + rng.below(mix.pages - 4)) * PAGE;
    let beyond = ARENA + mix.pages * PAGE;
    let prot = 3;
    let mut ops = Vec::new();
    let number = if mix.files && rng.chance(30) {
        file(rng, mix)
    } else {
        0
    };
    let map = |addr: u64, len: u64, offset: u64, fixed: bool| Op::Mmap {
        addr,
        len,
        prot,
        flags: 2 | if number == 0 { 0x20 } else { 0 } | if fixed { 0x10 } else { 0 },
        file: number,
        offset: if number == 0 { 0 } else { offset - ARENA },
    };
    let unmapped = Op::Munmap {
        addr: hole,
        len: PAGE,
    };
    let moved = |old: u64, new: u64, flags: u64| Op::Mremap {
        old,
        old_len: PAGE,
        new_len: PAGE,
        flags,
        new,
    };
    if rng.chance(60) {
        // As they lay before: one area, or two with the hole between them.
        let (low, high) = (hole - 2 * PAGE, hole + 3 * PAGE);
        if rng.chance(50) {
            ops.push(map(low, high - low, low, true));
        } else {
            ops.push(unmapped);
            ops.push(map(low, hole - low, low, true));
            ops.push(map(hole + PAGE, high - hole - PAGE, hole + PAGE, true));
        }
    }
    let back = rng.chance(20);
    let some = |rng: &mut Rng, ops: &mut Vec<Op>| {
        for page in [hole - PAGE, hole, hole + PAGE] {
            if rng.chance(35) {
                ops.push(Op::Write { addr: page });
            }
        }
    };
    let cut = if back {
        moved(hole, beyond, 3)
    } else {
        unmapped
    };
    some(rng, &mut ops);
    let late = rng.chance(30);
    if !late {
        ops.push(cut);
        some(rng, &mut ops);
    }
    if mix.forks && rng.chance(50) {
        ops.push(rng.pick(&[Op::ForkInto, Op::ForkInto, Op::ForkAside, Op::ForkKeep]));
    }
    if late {
        ops.push(cut);
    }
    some(rng, &mut ops);
    let flags = rng.pick(&[3, 3, 7]);
    if back {
        ops.push(moved(beyond, hole, flags));
        return ops;
    }
    ops.push(match rng.below(6) {
        0..3 => Op::Mremap {
            old: hole - PAGE,
            old_len: PAGE,
            new_len: 2 * PAGE,
            flags: 0,
            new: 0,
        },
        3 => map(hole, PAGE, hole, true),
        4 => map(hole, PAGE, hole, false),
        _ => moved(range(rng, mix).0, hole, flags),
    });
    ops
}
