//! One step of a history, and random histories.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) const PAGE: u64 = 4096;
/// Pages of a last-level table.
const TABLE: u64 = 512;
/// Bits that `mincore` is asked for.
pub(crate) const BITS: u64 = 64;

/// Whether histories happen in four tables instead of 64 pages.
static LARGE: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_large(large: bool) {
    LARGE.store(large, Relaxed);
}

/// Where histories happen: the smaller arena lies half below a boundary of last-level tables, half above.
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
    Read { addr: u64 },
    Write { addr: u64, value: u8 },
    /// Only where the map forbids it.
    Exec { addr: u64 },
    Fork { child: usize },
    Exit,
    Truncate { file: usize, size: u64 },
    Punch { file: usize, start: u64, end: u64 },
}

/// Who does it.
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
    /// Of 8 mappings, so many are shared.
    pub(crate) shared: u64,
    pub(crate) forks: bool,
    pub(crate) advice: &'static [i32],
    /// Pages that calls are rounded to, most times.
    pub(crate) unit: u64,
    /// Whether there are policies.
    pub(crate) policies: bool,
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
            "huge",
            Mix {
                unit: TABLE,
                ..mix(&[0], 0, true, &[14, 14, 14, 15, 25, 25])
            },
        ),
    ]
}

/// A history of so many steps.
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
    // What changes no mapping may cut pages of 2 MiB. What does, takes whole tables there: of one that it empties in part Linux remembers
    // that there was one, and maps small pages in it ever after.
    let unit = match kind {
        0..13 | 18..22 => mix.unit,
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
    Step { who, op }
}
