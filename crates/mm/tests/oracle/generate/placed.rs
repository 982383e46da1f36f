//! Mappings whose place the kernel chooses.

use super::rng::Rng;
use super::suites::Mix;
use super::{ARENA, PAGE, file, protection};
use crate::op::Op;

/// `/dev/zero`, opened for both and for reading.
const ZEROES: [usize; 2] = [5, 10];

/// Mappings whose place the kernel chooses, hints, sizes about those of huge pages.
pub(super) fn placed(rng: &mut Rng, mix: &Mix) -> Op {
    const MIB: u64 = 1 << 20;
    let len = match rng.below(4) {
        0 => PAGE * (1 + rng.below(16)),
        1 => rng.pick(&[
            2 * MIB,
            4 * MIB,
            6 * MIB,
            2 * MIB + PAGE,
            3 * MIB,
            2 * MIB - PAGE,
        ]),
        2 => rng.below(16) * MIB / 2 + PAGE,
        _ => 2 * MIB * (1 + rng.below(4)),
    };
    let mut base = rng.pick(&[ARENA, ARENA, 0x4000_0000, 0x1_4000_0000, 0, 0xf000]);
    if mix.wide && rng.chance(50) {
        const BORDER: u64 = 0x7fff_ffff_f000;
        let top = BORDER << 9 | 0x1f_f000;
        base = rng.pick(&[
            BORDER - PAGE,
            BORDER,
            BORDER + PAGE,
            1 << 48,
            1 << 48,
            top - 8 * MIB,
        ]);
    }
    let addr = match rng.below(4) {
        0 => 0,
        1 => base + rng.below(64) * PAGE,
        2 => base + rng.below(32) * MIB / 2,
        _ => base + rng.below(64 * PAGE),
    };
    match rng.below(10) {
        0 if mix.remap => Op::Mremap {
            old: ARENA + rng.below(mix.pages) * PAGE,
            old_len: PAGE * (1 + rng.below(4)),
            new_len: len,
            flags: rng.pick(&[1, 1, 5]),
            new: rng.pick(&[0, addr & !(PAGE - 1)]),
        },
        1 => Op::Munmap {
            addr: match mix.wide && rng.chance(50) {
                true => base + rng.below(64) * MIB / 2,
                false => ARENA + mix.pages * PAGE + rng.below(64) * MIB / 2,
            },
            len,
        },
        2 => Op::Mmap {
            addr: 0,
            len,
            prot: 3,
            flags: 0x62,
            file: 0,
            offset: 0,
        },
        _ => {
            let file = if rng.chance(40) { file(rng, mix) } else { 0 };
            let mut flags = rng.pick(&[1, 2, 2, 2]);
            if file == 0 {
                flags |= 0x20;
            }
            flags |= rng.pick(&[0, 0, 0, 0, 0, 0x40, 0x100, 0x4000, 0x10_0000]);
            let mut offset = rng.pick(&[0, 0, PAGE, MIB, 2 * MIB]);
            if ZEROES.contains(&file) && rng.chance(50) {
                // They end nowhere: at the largest signed number, where numbers begin to be negative, and at the end of all.
                let edge = rng.pick(&[0, 1 << 63, 1 << 63]);
                offset = offset.wrapping_add(edge).wrapping_sub(rng.below(5) * MIB);
                offset = offset.wrapping_sub(rng.below(2) * PAGE);
            }
            Op::Mmap {
                addr,
                len,
                prot: protection(rng),
                flags,
                file,
                offset: if file == 0 { 0 } else { offset },
            }
        }
    }
}
