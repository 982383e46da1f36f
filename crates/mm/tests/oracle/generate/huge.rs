//! Calls on mappings of the pool of huge pages.

use super::rng::Rng;
use super::suites::Mix;
use super::{HUGE, PAGE, protection};
use crate::op::{HUGE_FILES, Op};

/// The place of these histories: a page of 1 GiB may begin there.
const HUGE_ARENA: u64 = 0x2_0000_0000;
const HUGE_PAGES: u64 = 16;

/// Mostly whole huge pages.
fn range(rng: &mut Rng) -> (u64, u64) {
    let start = rng.below(HUGE_PAGES);
    let most = (HUGE_PAGES - start).min(if rng.chance(85) { 4 } else { HUGE_PAGES });
    let (mut addr, mut len) = (HUGE_ARENA + start * HUGE, (1 + rng.below(most)) * HUGE);
    if rng.chance(5) {
        addr += rng.pick(&[PAGE, 17 * PAGE, HUGE - PAGE, 1]);
    }
    if rng.chance(8) {
        len = match rng.below(3) {
            0 => len - PAGE,
            1 => len - HUGE + PAGE,
            _ => len + PAGE,
        };
    }
    (addr, len)
}

pub(super) fn op(rng: &mut Rng, mix: &Mix) -> Op {
    let (addr, len) = range(rng);
    match rng.below(100) {
        0..30 => mmap(rng, mix, addr, len),
        30..37 => Op::Munmap { addr, len },
        37..43 => Op::Mprotect {
            addr,
            len,
            prot: protection(rng),
        },
        43..63 => Op::Write {
            addr: addr + rng.below(512) * PAGE,
        },
        63..70 => Op::Read {
            addr: addr + rng.below(512) * PAGE,
        },
        70..75 => rng.pick(&[Op::ForkInto, Op::ForkAside, Op::ForkAside, Op::ForkKeep]),
        75..87 => Op::Madvise {
            addr,
            len,
            advice: rng.pick(&[
                4, 4, 4, 9, 9, 24, 0, 1, 2, 3, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                22, 23, 102, 103,
            ]),
        },
        87..90 => match rng.below(4) {
            0 => Op::Munlock { addr, len },
            1 => Op::Munlockall,
            2 => Op::Mlockall {
                flags: rng.pick(&[2, 4, 6]),
            },
            _ => Op::Mlock {
                addr,
                len,
                flags: rng.below(2),
            },
        },
        90..95 => mremap(rng, mix, addr, len),
        // To no node, where only places without a page will do; and to the first.
        95..97 => match rng.below(2) {
            0 => Op::Mbind {
                addr,
                len,
                mode: rng.pick(&[1, 4]),
                nodes: 0,
                flags: rng.pick(&[1, 1, 1, 3]),
            },
            _ => Op::Mbind {
                addr,
                len,
                mode: rng.pick(&[0, 2, 3]),
                nodes: rng.pick(&[0, 1]),
                flags: rng.below(4),
            },
        },
        97 => Op::RemapFilePages {
            addr,
            len,
            prot: 0,
            pgoff: rng.pick(&[0, 512, 1024, 512, 1]),
            flags: rng.pick(&[0, 0x1_0000]),
        },
        98 => match rng.below(5) {
            0 => Op::Mseal {
                addr,
                len: HUGE,
                flags: 0,
            },
            1..3 => Op::Msync {
                addr,
                len,
                flags: 4,
            },
            _ => Op::Mincore { addr, len },
        },
        _ => Op::Limit {
            which: rng.pick(&[libc::RLIMIT_AS, libc::RLIMIT_DATA]) as i32,
            value: rng.pick(&[u64::MAX, u64::MAX, 280 << 20, 24 << 20]),
        },
    }
}

fn mmap(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
    let mut flags = rng.pick(&[2, 2, 1]);
    flags |= match rng.below(20) {
        0 => 0x10_0000,
        1 => 0,
        _ => 0x10,
    };
    let addr = if rng.chance(3) { 0 } else { addr };
    if rng.chance(15) {
        flags |= rng.pick(&[0x8000, 0x8000, 0x2000, 0x2_0000, 0x8_0000, 0x100, 0x1_0000]);
    }
    if rng.chance(2) {
        flags ^= rng.pick(&[1, 3, 8]);
    }
    // With nothing promised, so that parts of it may be moved: Linux never takes back what was promised to the rest.
    if mix.remap && flags & 3 == 2 || rng.chance(20) {
        flags |= 0x4000;
    }
    let prot = if rng.chance(70) { 3 } else { protection(rng) };
    let file = match rng.below(20) {
        // Small pages among the huge ones.
        0 => {
            return Op::Mmap {
                addr,
                len,
                prot,
                flags: flags | 0x20,
                file: 0,
                offset: 0,
            };
        }
        1..8 => HUGE_FILES + rng.below(3) as usize,
        _ => 0,
    };
    let size = match rng.below(40) {
        0 => rng.below(64),
        1 => 30,
        2..8 => 21,
        _ => 0,
    };
    if file == 0 {
        flags |= 0x4_0020 | size << 26;
    }
    let offset = match rng.below(40) {
        0 => PAGE,
        1 => 0x7fff_ffff_ffc0_0000,
        2..20 => rng.below(8) * HUGE,
        _ => 0,
    };
    Op::Mmap {
        addr,
        len,
        prot,
        flags,
        file,
        offset,
    }
}

fn mremap(rng: &mut Rng, mix: &Mix, old: u64, old_len: u64) -> Op {
    let (new, mut new_len) = range(rng);
    if rng.chance(60) {
        new_len = old_len;
    }
    // None that moves where pages are promised to private mappings.
    let flags = match mix.remap {
        true => rng.pick(&[0, 1, 3, 3, 3, 3, 7, 5]),
        false => rng.pick(&[0, 1]),
    };
    let new = if flags & 2 == 0 { 0 } else { new };
    let old_len = if rng.chance(3) { 0 } else { old_len };
    Op::Mremap {
        old,
        old_len,
        new_len,
        flags,
        new,
    }
}
