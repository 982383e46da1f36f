//! Arguments from the edges of what is allowed, and beyond.

use super::rng::Rng;
use super::suites::Mix;
use super::{ARENA, PAGE, range};
use crate::op::Op;

/// Arguments from the edges of what is allowed, and beyond.
pub(super) fn wrong(rng: &mut Rng, mix: &Mix) -> Op {
    const TASK: u64 = 0x7fff_ffff_f000;
    let (good, good_len) = range(rng, mix);
    let address = |rng: &mut Rng| {
        let edge = rng.pick(&[
            0,
            PAGE,
            0xf000,
            0x1_0000,
            TASK,
            TASK - PAGE,
            TASK + PAGE,
            1 << 47,
            1 << 63,
            u64::MAX - PAGE + 1,
            u64::MAX,
            ARENA - PAGE,
            ARENA + 1,
        ]);
        if rng.chance(60) {
            good + rng.pick(&[0, 0, 0, 0, 1, 0x800])
        } else {
            edge
        }
    };
    let length = |rng: &mut Rng| {
        let edge = rng.pick(&[
            0,
            1,
            PAGE - 1,
            PAGE + 1,
            TASK,
            TASK + 1,
            1 << 47,
            1 << 63,
            u64::MAX,
            u64::MAX - PAGE + 1,
            u64::MAX - PAGE,
        ]);
        if rng.chance(60) {
            good_len - rng.pick(&[0, 0, 0, 0, 1, 0x800])
        } else {
            edge
        }
    };
    // A length that reaches over memory of the process itself must fail for another reason.
    let safe = |addr: u64, len: u64| {
        let end = addr.checked_add(len);
        let among_own = (1 << 46..TASK - PAGE).contains(&addr);
        if among_own || addr < 1 << 46 && end.is_some_and(|end| end > ARENA + (1 << 32)) {
            PAGE
        } else {
            len
        }
    };
    let addr = address(rng);
    let len = length(rng);
    if mix.several && rng.chance(5) {
        let (then, then_len) = (address(rng), length(rng));
        return Op::ProcessMadvise {
            addr,
            len: safe(addr, len),
            then,
            then_len: safe(then, then_len),
            advice: rng.pick(&[0, 1, 3, 4, 5, 8, 9, 10, 20, 21, 25, 27, -1]),
            flags: rng.pick(&[0, 0, 0, 1]),
        };
    }
    match rng.below(15) {
        0..4 => {
            let file = rng.pick(&[0, 0, 1, 2, 3, 4, 6, 11]);
            let kind = rng.pick(&[0, 1, 2, 2, 3, 4, 8, 15]);
            let more = rng.pick(&[
                0,
                0,
                0x10,
                0x10,
                0x10_0000,
                0x10_0010,
                0x8_0010,
                0x40,
                0x100,
                0x110,
                0x2000,
                0x8_0000,
                0x20_0000,
                0x800,
                0x1000,
                0x8000_0000,
                0x7800_0000,
                0x80,
                0x200,
            ]);
            let anonymous = if file == 0 || rng.chance(10) { 0x20 } else { 0 };
            let fixed = (kind | more) & 0x10_0010 == 0x10;
            Op::Mmap {
                addr,
                len: if fixed { safe(addr, len) } else { len },
                prot: rng.pick(&[0, 1, 2, 3, 4, 7, 8, 0x10, 0x100_0000, 3]),
                flags: kind | more | anonymous,
                file,
                offset: rng.pick(&[
                    0,
                    0,
                    PAGE,
                    1,
                    u64::MAX - PAGE + 1,
                    1 << 63,
                    u64::MAX - 2 * PAGE + 1,
                ]),
            }
        }
        4 => Op::Munmap {
            addr,
            len: safe(addr, len),
        },
        5..7 => Op::Mprotect {
            addr,
            len: safe(addr, len),
            prot: rng.pick(&[
                0,
                1,
                3,
                8,
                0x10,
                0x100_0001,
                0x200_0001,
                0x300_0001,
                1 << 32,
            ]),
        },
        7..9 => {
            let (new, new_len) = (address(rng), length(rng));
            Op::Mremap {
                old: addr,
                old_len: safe(addr, len),
                new_len: safe(new, new_len),
                flags: rng.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8]),
                new,
            }
        }
        9 => Op::Madvise {
            addr,
            len: safe(addr, len),
            advice: rng.pick(&[
                0, 1, 4, 5, 6, 7, 8, 9, 10, 18, 26, 27, 99, 104, -1, 22, 23, 25, 25,
            ]),
        },
        10 => Op::Mlock {
            addr,
            len: safe(addr, len),
            flags: rng.below(3),
        },
        11 => Op::Munlock {
            addr,
            len: safe(addr, len),
        },
        12 => rng.pick(&[
            Op::Msync {
                addr,
                len: safe(addr, len),
                flags: addr & 15,
            },
            Op::Mincore {
                addr,
                len: safe(addr, len).min(1 << 30),
            },
            Op::RemapFilePages {
                addr,
                len: safe(addr, len),
                prot: 0,
                // Within the files, whose ends the engine does not know, or beyond all numbers.
                pgoff: if len > 1 << 52 { len } else { len % 0x2000 },
                flags: 0,
            },
            Op::Mlockall {
                flags: 4 + 4 * (addr & 1),
            },
        ]),
        13 => Op::HomeNode {
            addr,
            len: safe(addr, len),
            home: rng.pick(&[0, 0, 0, 1, 64, 1 << 20, !0]),
            flags: rng.pick(&[0, 0, 0, 1]),
        },
        _ => Op::Mbind {
            addr,
            len: safe(addr, len),
            mode: rng.below(10),
            nodes: rng.pick(&[0, 1, 2, 3, 1 << 63]),
            flags: rng.pick(&[0, 0, 8]),
        },
    }
}
