//! One step of a history, and random histories.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) const PAGE: u64 = 4096;
/// Pages of a last-level table.
const TABLE: u64 = 512;
/// Bits that `mincore` is asked for.
pub(crate) const BITS: u64 = 64;

/// `true` if histories use four tables instead of 64 pages.
static LARGE: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_large(large: bool) {
    LARGE.store(large, Relaxed);
}

/// Returns the place of histories: the smaller arena lies half below a boundary of last-level
/// tables, half above.
pub(crate) fn base() -> u64 {
    if LARGE.load(Relaxed) {
        0x10_0000_0000
    } else {
        0x10_0020_0000 - pages() / 2 * PAGE
    }
}

pub(crate) fn pages() -> u64 {
    if LARGE.load(Relaxed) { 4 * TABLE } else { 64 }
}
/// Processes at one time.
pub(crate) const SLOTS: usize = 3;
/// Pages of a file at first.
pub(crate) const FILE_PAGES: u64 = 40;

/// `file` 0 is none, 1 a memfd, 2 a file on disk, all of which is in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
#[rustfmt::skip]
pub(crate) enum Op {
    Mmap { addr: u64, len: u64, prot: u64, flags: u64, file: usize, offset: u64 },
    Munmap { addr: u64, len: u64 },
    Mprotect { addr: u64, len: u64, prot: u64 },
    Mremap { old: u64, old_len: u64, new_len: u64, flags: u64, new: u64 },
    Madvise { addr: u64, len: u64, advice: i32 },
    Mlock { addr: u64, len: u64, flags: u64 },
    Munlock { addr: u64, len: u64 },
    Msync { addr: u64, len: u64, flags: u64 },
    Mincore { addr: u64, len: u64 },
    Mbind { addr: u64, len: u64, mode: u64, nodes: u64, flags: u64 },
    Mlockall { flags: u64 },
    Munlockall,
    RemapFilePages { addr: u64, len: u64, prot: u64, pgoff: u64, flags: u64 },
    /// Of itself.
    ProcessMadvise { addr: u64, len: u64, advice: i32, flags: u64 },
    Read { addr: u64 },
    Write { addr: u64, value: u8 },
    /// Only where the map forbids it.
    Exec { addr: u64 },
    Fork { child: usize },
    Exit,
    Truncate { file: usize, size: u64 },
    Punch { file: usize, start: u64, end: u64 },
}

/// The process that performs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) who: usize,
    pub(crate) op: Op,
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Which kinds of mappings a suite has.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) files: &'static [usize],
    /// The number of shared mappings among 8.
    pub(crate) shared: u64,
    pub(crate) forks: bool,
    pub(crate) advice: &'static [i32],
    /// Pages that calls are rounded to, most times.
    pub(crate) unit: u64,
    /// `true` if there are policies.
    pub(crate) policies: bool,
    /// `true` if arguments are often strange.
    pub(crate) strange: bool,
    /// `true` if holes of a page are often made and closed again.
    pub(crate) holes: bool,
}

pub(crate) fn suites() -> Vec<(&'static str, Mix)> {
    const ANON: &[i32] = &[
        4, 8, 8, 8, 10, 11, 18, 19, 20, 21, 21, 22, 23, 24, 25, 102, 103,
    ];
    const FILE: &[i32] = &[4, 8, 9, 10, 11, 20, 21, 22, 23, 24, 102, 103];
    let mix = |files, shared, forks, advice| Mix {
        files,
        shared,
        forks,
        advice,
        unit: 1,
        policies: false,
        strange: false,
        holes: false,
    };
    vec![
        ("alone", mix(&[0], 0, false, ANON)),
        ("families", mix(&[0], 0, true, ANON)),
        ("shared", mix(&[0], 6, true, ANON)),
        ("memfd", mix(&[0, 1, 1, 1], 4, true, FILE)),
        ("disk", mix(&[0, 2, 2, 2], 4, true, FILE)),
        ("all", mix(&[0, 1, 2], 3, true, FILE)),
        (
            "policies",
            Mix {
                policies: true,
                ..mix(&[0, 1], 3, true, FILE)
            },
        ),
        (
            "strange",
            Mix {
                strange: true,
                ..mix(&[0, 1], 3, true, ANON)
            },
        ),
        (
            "holes",
            Mix {
                holes: true,
                ..mix(&[0], 0, true, ANON)
            },
        ),
        (
            "huge",
            Mix {
                unit: TABLE,
                ..mix(&[0], 0, true, &[4, 4, 24, 102, 103, 14, 14, 14, 15, 25, 25])
            },
        ),
    ]
}

/// Draws a history of `steps` steps.
pub(crate) fn history(seed: u64, mix: &Mix, steps: usize) -> Vec<Step> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        random.below(2);
    }
    (0..steps).map(|_| step(&mut random, mix)).collect()
}

fn step(random: &mut Random, mix: &Mix) -> Step {
    let who = if mix.forks {
        random.below(SLOTS as u64) as usize
    } else {
        0
    };
    let kind = random.below(if mix.forks { 64 } else { 60 });
    // What changes a mapping takes whole tables more often.
    let unit = match kind {
        0..13 | 18..22 if random.below(2) == 0 => mix.unit,
        _ => mix.unit.div_ceil(4),
    };
    let page = random.below(pages() / unit) * unit;
    let most = (pages() - page).min(16 * unit) / unit;
    let addr = base() + page * PAGE;
    let len = (1 + random.below(most)) * unit * PAGE;
    let prot = random.pick(&[0, 1, 2, 3, 3, 3, 3, 4, 5]);
    let offset = random.below(FILE_PAGES + 4) * PAGE;
    let flags = if random.below(8) < mix.shared { 1 } else { 2 };
    let file = random.pick(mix.files);
    let op = match kind {
        0..10 => Op::Mmap {
            addr,
            len,
            prot,
            flags: flags
                | 0x10
                | if file == 0 { 0x20 } else { 0 }
                | random.pick(&[0, 0, 0, 0, 0x8000, 0x2000])
                | if file == 0 && flags == 2 && random.below(8) == 0 {
                    0x100
                } else {
                    0
                },
            file,
            offset: if file == 0 { 0 } else { offset },
        },
        10..13 => Op::Munmap { addr, len },
        13..18 => Op::Mprotect { addr, len, prot },
        18..22 => {
            let to = random.below((pages() - len / PAGE) / unit + 1) * unit;
            let new_len = if random.below(2) == 0 {
                len
            } else {
                (1 + random.below((pages() - to) / unit)).min(16) * unit * PAGE
            };
            Op::Mremap {
                old: addr,
                old_len: if random.below(12) == 0 { 0 } else { len },
                new_len,
                flags: random.pick(&[0, 3, 3, 3, 7]),
                new: base() + to * PAGE,
            }
        }
        22..27 => Op::Madvise {
            addr,
            len,
            advice: random.pick(mix.advice),
        },
        27 => Op::Mlock {
            addr,
            len,
            flags: random.below(2),
        },
        28 => Op::Munlock { addr, len },
        29 => Op::Msync {
            addr,
            len,
            flags: random.pick(&[1, 2, 4, 4, 6]),
        },
        30..32 if mix.policies => Op::Mbind {
            addr,
            len,
            mode: random.pick(&[0, 1, 2, 3, 4, 4, 0x8001, 0x4002]),
            nodes: random.pick(&[0, 0, 1, 2, 3]),
            flags: random.below(8),
        },
        30..32 => Op::Mincore {
            addr,
            len: len.min(BITS * PAGE),
        },
        32..43 => Op::Read {
            addr: addr + random.below(unit * PAGE),
        },
        43..56 => Op::Write {
            addr: addr + random.below(unit * PAGE),
            value: 1 + random.below(255) as u8,
        },
        56 => Op::Exec { addr },
        57 if mix.files.len() > 1 => Op::Truncate {
            file: random.pick(&mix.files[1..]),
            size: random.below((FILE_PAGES + 2) * PAGE),
        },
        58 if mix.files.len() > 1 => Op::Punch {
            file: random.pick(&mix.files[1..]),
            start: random.below(FILE_PAGES) * PAGE,
            end: FILE_PAGES * PAGE,
        },
        57..60 => Op::Write { addr, value: 1 },
        60..62 => Op::Fork {
            child: random.below(SLOTS as u64) as usize,
        },
        62 => Op::Exit,
        _ => Op::Fork {
            child: random.below(SLOTS as u64) as usize,
        },
    };
    let op = match mix.holes && random.below(4) == 0 {
        true => hole(random),
        false => op,
    };
    let op = match mix.strange && random.below(4) == 0 {
        true => strange(random, op, addr, len),
        false => op,
    };
    Step { who, op }
}

/// Draws an operation that makes a hole of one of a few pages, closes it, or maps pages next to it.
fn hole(random: &mut Random) -> Op {
    let page = 4 + 4 * random.below(pages() / 4 - 1);
    let addr = base() + page * PAGE;
    match random.below(8) {
        // Both areas next to a hole.
        0 => Op::Mmap {
            addr: addr - 3 * PAGE,
            len: 7 * PAGE,
            prot: 3,
            flags: 0x32,
            file: 0,
            offset: 0,
        },
        1 | 2 => Op::Munmap { addr, len: PAGE },
        3 => Op::Madvise {
            addr: addr - 2 * PAGE,
            len: 2 * PAGE,
            advice: 23,
        },
        4 => Op::Write {
            addr: addr + PAGE,
            value: 7,
        },
        5 => Op::Mmap {
            addr,
            len: PAGE,
            prot: 3,
            flags: 0x32,
            file: 0,
            offset: 0,
        },
        _ => Op::Mremap {
            old: addr - PAGE,
            old_len: PAGE,
            new_len: 2 * PAGE,
            flags: 0,
            new: addr,
        },
    }
}

/// Lengths with which a range ends beyond all memory.
const WRAPS: [u64; 4] = [
    u64::MAX,
    u64::MAX - PAGE,
    u64::MAX - (PAGE - 1),
    u64::MAX - (1 << 30),
];
/// The same, and some that no program has.
const LONG: [u64; 4] = [1 << 47, 1 << 63, u64::MAX, u64::MAX - 2 * PAGE];
/// Addresses that no program uses.
const NOWHERE: [u64; 6] = [
    0,
    PAGE,
    0x7fff_ffff_f000,
    1 << 47,
    1 << 63,
    u64::MAX - (PAGE - 1),
];

/// Another call in the place of one, or the same with arguments that are seldom right. Nothing outside of the arena may be reached, nor places be left to the
/// kernel's choice.
fn strange(random: &mut Random, op: Op, addr: u64, len: u64) -> Op {
    let addr = match random.below(6) {
        0 => random.pick(&NOWHERE),
        1 => addr + random.pick(&[1, 0x800, PAGE - 1]),
        _ => addr,
    };
    let inside = addr.wrapping_sub(base()) < pages() * PAGE;
    let len = match random.below(6) {
        0 => 0,
        1 => len - random.pick(&[1, 0x800, PAGE - 1]),
        2 if inside => random.pick(&WRAPS),
        _ if inside => len.min(base() + pages() * PAGE - addr),
        _ => PAGE,
    };
    match op {
        Op::Mmap {
            prot,
            flags,
            file,
            offset,
            ..
        } => Op::Mmap {
            // What lies elsewhere is not compared.
            addr: if addr < base() { 1 << 47 } else { addr },
            len: if random.below(4) == 0 {
                random.pick(&LONG)
            } else {
                len
            },
            prot: prot | random.pick(&[0, 0, 8, 0x10, 1 << 24, 1 << 25, 1 << 40]),
            flags: match random.below(4) {
                0 => (flags & !3) | random.pick(&[0, 1, 2, 3, 4, 8]),
                1 => flags | random.pick(&[0x40, 0x100, 0x800, 0x1000, 0x4000, 0x2_0000, 0x8_0000]),
                2 => flags | random.pick(&[0x10_0000, 1 << 21, 1 << 31]),
                _ => flags,
            },
            file,
            offset: match random.below(4) {
                0 => offset + random.pick(&[1, 0x800, PAGE - 1]),
                1 => random.pick(&[
                    1 << 62,
                    1 << 63,
                    u64::MAX - PAGE + 1,
                    u64::MAX - 16 * PAGE + 1,
                ]),
                _ => offset,
            },
        },
        Op::Munmap { .. } => Op::Munmap { addr, len },
        Op::Mprotect { prot, .. } => Op::Mprotect {
            addr,
            len,
            prot: prot
                | random.pick(&[
                    0,
                    8,
                    0x10,
                    0x20,
                    1 << 24,
                    1 << 24,
                    1 << 25,
                    3 << 24,
                    1 << 40,
                ]),
        },
        Op::Mremap {
            old,
            old_len,
            new_len,
            new,
            ..
        } => {
            let flags = random.pick(&[0, 2, 3, 3, 4, 6, 7, 8, 11, 15, 1 << 40 | 3, u64::MAX]);
            match random.below(5) {
                0 => Op::Mremap {
                    old: addr,
                    old_len: len,
                    new_len,
                    flags,
                    new,
                },
                1 => Op::Mremap {
                    old,
                    old_len,
                    new_len: random.pick(&LONG),
                    flags,
                    new,
                },
                2 => Op::Mremap {
                    old,
                    old_len,
                    new_len: 0,
                    flags,
                    new,
                },
                3 => Op::Mremap {
                    old,
                    old_len,
                    new_len,
                    flags: flags | 3,
                    new: random.pick(&[new + 1, 1 << 47, 1 << 63, u64::MAX - PAGE + 1, old]),
                },
                // It shrinks, and stays where it is.
                _ => Op::Mremap {
                    old,
                    old_len: old_len.max(PAGE),
                    new_len: random
                        .pick(&[1, PAGE, old_len.max(PAGE)])
                        .min(old_len.max(PAGE)),
                    flags: 1,
                    new,
                },
            }
        }
        Op::Madvise { .. } => {
            // Not those that break memory.
            let advice = match random.below(8) {
                0 => random.pick(&[-1, 26, 27, 32, 99, 104, 105, 1 << 30]),
                1 => 102 + random.below(2) as i32,
                _ => random.below(26) as i32,
            };
            match random.below(4) {
                0 => Op::ProcessMadvise {
                    addr,
                    len,
                    advice,
                    flags: random.pick(&[0, 0, 0, 1, 1 << 40]),
                },
                _ => Op::Madvise { addr, len, advice },
            }
        }
        Op::Mlock { .. } => match random.below(3) {
            0 => Op::Mlockall {
                flags: random.below(10),
            },
            _ => Op::Mlock {
                addr,
                len,
                flags: random.pick(&[0, 1, 1, 2, 3, u64::MAX, 1 << 40]),
            },
        },
        Op::Munlock { .. } => match random.below(2) {
            0 => Op::Munlockall,
            _ => Op::Munlock { addr, len },
        },
        Op::Msync { .. } => Op::Msync {
            addr,
            len,
            flags: random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 1 << 31, 1 << 40]),
        },
        Op::Mincore { .. } => Op::RemapFilePages {
            addr,
            len,
            prot: random.pick(&[0, 0, 0, 1, 1 << 40]),
            pgoff: random.pick(&[0, 1, 3, FILE_PAGES - 1, FILE_PAGES, 1 << 52, u64::MAX]),
            flags: random.pick(&[0, 0, 0x1_0000, 0x10, u64::MAX]),
        },
        other => other,
    }
}
