//! Random histories.

use crate::op::{Op, WATCHERS};

/// Where dense histories take place: far from everything that the process uses.
pub(crate) const ARENA: u64 = 0x1_0000_0000;
pub(crate) const PAGE: u64 = 4096;

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a suite draws from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix {
    pub(crate) pages: u64,
    pub(crate) files: bool,
    pub(crate) forks: bool,
    pub(crate) advice: bool,
    /// Advice for several ranges in one call.
    pub(crate) several: bool,
    pub(crate) locks: bool,
    pub(crate) remap: bool,
    pub(crate) odd: bool,
    pub(crate) guards: bool,
    pub(crate) seals: bool,
    pub(crate) shm: bool,
    pub(crate) brk: bool,
    pub(crate) policies: bool,
    /// Places of the kernel's choice, hints, large lengths.
    pub(crate) places: bool,
    pub(crate) limits: bool,
    /// Arguments that make no sense.
    pub(crate) wrong: bool,
    /// Protection keys, and what is set for a whole address space.
    pub(crate) modes: bool,
    /// Ranges far from each other.
    pub(crate) sparse: bool,
    /// Ranges among the areas that the kernel installs at exec: where these begin and end.
    pub(crate) special: Option<(u64, u64)>,
    /// Userfaultfds.
    pub(crate) watch: bool,
    /// The kernel is older than the newest one: only what was compared with it.
    pub(crate) older: bool,
    /// There are addresses of 57 bits.
    pub(crate) wide: bool,
}

/// A range among special areas.
const SOMEWHERE: Option<(u64, u64)> = Some((0, 0));

/// Every suite, by name.
pub(crate) fn suites() -> Vec<(&'static str, Mix)> {
    let plain = Mix {
        pages: 64,
        ..Mix::default()
    };
    let files = Mix {
        files: true,
        ..plain
    };
    let all = Mix {
        guards: true,
        forks: true,
        advice: true,
        locks: true,
        remap: true,
        odd: true,
        ..files
    };
    let mixed = Mix {
        several: true,
        seals: true,
        shm: true,
        brk: true,
        policies: true,
        places: true,
        limits: true,
        wrong: true,
        modes: true,
        special: SOMEWHERE,
        ..all
    };
    vec![
        ("plain", plain),
        ("files", files),
        (
            "forks",
            Mix {
                forks: true,
                ..files
            },
        ),
        (
            "advice",
            Mix {
                advice: true,
                several: true,
                forks: true,
                ..plain
            },
        ),
        (
            "locks",
            Mix {
                locks: true,
                ..files
            },
        ),
        (
            "remap",
            Mix {
                remap: true,
                ..plain
            },
        ),
        (
            "guards",
            Mix {
                guards: true,
                forks: true,
                remap: true,
                ..files
            },
        ),
        ("all", all),
        (
            "shm",
            Mix {
                shm: true,
                remap: true,
                ..files
            },
        ),
        (
            "policies",
            Mix {
                policies: true,
                remap: true,
                forks: true,
                ..files
            },
        ),
        (
            "brk",
            Mix {
                brk: true,
                locks: true,
                odd: true,
                forks: true,
                remap: true,
                ..plain
            },
        ),
        (
            "seals",
            Mix {
                seals: true,
                remap: true,
                advice: true,
                forks: true,
                ..files
            },
        ),
        (
            "places",
            Mix {
                places: true,
                remap: true,
                forks: true,
                ..files
            },
        ),
        (
            "limits",
            Mix {
                limits: true,
                brk: true,
                ..all
            },
        ),
        ("wrong", Mix { wrong: true, ..all }),
        (
            "wrong and limits",
            Mix {
                wrong: true,
                limits: true,
                ..all
            },
        ),
        (
            "everything",
            Mix {
                shm: true,
                policies: true,
                brk: true,
                places: true,
                ..all
            },
        ),
        ("modes", Mix { modes: true, ..all }),
        (
            "watched",
            Mix {
                watch: true,
                remap: true,
                forks: true,
                several: true,
                ..files
            },
        ),
        (
            "special areas",
            Mix {
                special: SOMEWHERE,
                wrong: true,
                ..all
            },
        ),
        ("mixed", mixed),
        (
            "mixed and sparse",
            Mix {
                sparse: true,
                ..mixed
            },
        ),
    ]
}

/// Suites in which the engine is not told of faults.
pub(crate) fn asked_suites() -> Vec<(&'static str, Mix)> {
    let plain = Mix {
        pages: 64,
        ..Mix::default()
    };
    let files = Mix {
        files: true,
        ..plain
    };
    let moves = Mix {
        remap: true,
        advice: true,
        locks: true,
        ..files
    };
    vec![
        ("asked plain", plain),
        ("asked files", files),
        ("asked moves", moves),
        (
            "asked forks",
            Mix {
                forks: true,
                ..moves
            },
        ),
    ]
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

/// One that can be mapped.
fn file(rng: &mut Rng, mix: &Mix) -> usize {
    if mix.older || rng.chance(75) {
        1 + rng.below(5) as usize
    } else {
        rng.pick(&[7, 8, 9])
    }
}

fn protection(rng: &mut Rng) -> u64 {
    rng.pick(&[0, 1, 3, 3, 3, 1, 5, 7, 3, 2, 4, 6])
}

pub(crate) fn op(rng: &mut Rng, mix: &Mix) -> Op {
    let (addr, len) = range(rng, mix);
    if mix.wrong && rng.chance(35) {
        return wrong(rng, mix);
    }
    if mix.places && rng.chance(20) {
        return placed(rng, mix);
    }
    if mix.seals && rng.chance(2) {
        return Op::Mseal {
            addr,
            len,
            flags: 0,
        };
    }
    if mix.shm && rng.chance(15) {
        return match rng.below(3) {
            0 => Op::Shmdt { addr },
            _ => Op::Shmat {
                segment: 1 + rng.below(2) as usize,
                addr,
                flags: rng.pick(&[0, 0o10000, 0o40000, 0o40000, 0o140000]),
            },
        };
    }
    if mix.brk && rng.chance(15) {
        let delta = rng.below(64) as i64 * 4096 + rng.pick(&[0, 0, 1, 17, -1, -4096]);
        return Op::Brk { delta };
    }
    if mix.modes && rng.chance(12) {
        return modes(rng, addr, len);
    }
    if mix.policies && rng.chance(15) {
        return match rng.below(4) {
            0 => Op::RemapFilePages {
                addr,
                len,
                prot: 0,
                pgoff: addr.wrapping_sub(ARENA) / PAGE + rng.below(2),
                flags: 0,
            },
            1 => Op::SetName {
                addr,
                len,
                name: rng.below(3) as usize,
            },
            _ => Op::Mbind {
                addr,
                len,
                mode: rng.pick(&[0, 1, 2, 3, 4, 5, 0x8001, 0x4002, 7]),
                nodes: rng.pick(&[0, 1, 1, 2]),
                flags: 0,
            },
        };
    }
    if mix.limits && rng.chance(4) {
        return limit(rng);
    }
    if mix.watch && rng.chance(25) {
        return watch(rng, addr, len);
    }
    match rng.below(100) {
        0..25 => {
            let file = if mix.files && rng.chance(40) {
                file(rng, mix)
            } else {
                0
            };
            let prot = protection(rng);
            let mut flags = if rng.chance(85) { 2 } else { 1 };
            flags |= if rng.chance(90) {
                0x10
            } else {
                rng.pick(&[0x10_0000, 0])
            };
            if file == 0 {
                flags |= 0x20;
            }
            if rng.chance(10) {
                flags |= rng.pick(&[0x4000, 0x2_0000, 0x100, 0x8000, 0x2000]);
            }
            // Mostly so that neighbours continue each other.
            // Within the files, whose ends the engine does not know.
            let offset = if rng.chance(70) {
                addr.wrapping_sub(ARENA) % (32 << 20)
            } else {
                rng.below(64) * PAGE
            };
            Op::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset: if file == 0 { 0 } else { offset },
            }
        }
        25..35 => Op::Munmap { addr, len },
        35..55 => Op::Mprotect {
            addr,
            len,
            prot: protection(rng),
        },
        55..70 => Op::Write { addr },
        70..73 => Op::Read { addr },
        73..75 if mix.forks => rng.pick(&[Op::ForkInto, Op::ForkAside, Op::ForkKeep]),
        75..78 if mix.guards => Op::Madvise {
            addr,
            len,
            advice: rng.pick(&[102, 103]),
        },
        75..85 if mix.advice => {
            let advice = rng.pick(&[
                0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
            ]);
            if mix.several && rng.chance(20) {
                let (then, then_len) = range(rng, mix);
                return Op::ProcessMadvise {
                    addr,
                    len,
                    then,
                    then_len,
                    advice,
                    flags: 0,
                };
            }
            Op::Madvise { addr, len, advice }
        }
        85..90 if mix.locks => match rng.below(8) {
            0..4 => Op::Mlock {
                addr,
                len,
                flags: rng.below(2),
            },
            4..7 => Op::Munlock { addr, len },
            _ if mix.odd => rng.pick(&[Op::Munlockall, Op::Mlockall { flags: 2 }]),
            _ => Op::Munlock { addr, len },
        },
        90..98 if mix.remap => {
            let (new, new_len) = range(rng, mix);
            let new_len = if rng.chance(60) { len } else { new_len };
            let flags = rng.pick(&[0, 1, 3, 3, 3, 5, 7]);
            let len = if rng.chance(3) { 0 } else { len };
            Op::Mremap {
                old: addr,
                old_len: len,
                new_len,
                flags,
                new,
            }
        }
        98 if mix.odd => Op::Msync {
            addr,
            len,
            flags: rng.below(8),
        },
        99 if mix.odd => Op::Mincore { addr, len },
        _ => Op::Mprotect {
            addr,
            len,
            prot: protection(rng),
        },
    }
}

fn modes(rng: &mut Rng, addr: u64, len: u64) -> Op {
    let pkey = rng.pick(&[-1, 0, 1, 1, 2, 2, 3, 15, 16]);
    match rng.below(20) {
        0..4 => Op::PkeyAlloc {
            rights: rng.pick(&[0, 0, 0, 4]),
        },
        // Whoever frees key 0 ends at the next page that is only executable: the kernel takes it for that.
        4..6 => Op::PkeyFree {
            pkey: if pkey == 0 { 4 } else { pkey },
        },
        6..16 => Op::PkeyMprotect {
            addr,
            len,
            prot: protection(rng),
            pkey,
        },
        16 => Op::SetMdwe {
            bits: rng.pick(&[0, 0, 0, 0, 1, 2, 3, 4]),
        },
        _ => Op::SetMemoryMerge { on: rng.below(2) },
    }
}

fn watch(rng: &mut Rng, addr: u64, len: u64) -> Op {
    let watcher = 1 + rng.below(WATCHERS as u64) as usize;
    let addr = addr + rng.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let len = len + rng.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    match rng.below(20) {
        0..12 => Op::UffdRegister {
            watcher,
            addr,
            len,
            mode: rng.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 0, 8]),
        },
        12..19 => Op::UffdUnregister { watcher, addr, len },
        _ => Op::UffdClose { watcher },
    }
}

fn limit(rng: &mut Rng) -> Op {
    match rng.below(8) {
        0 => Op::DropCaps,
        n => {
            let which = rng.pick(&[
                libc::RLIMIT_AS,
                libc::RLIMIT_DATA,
                libc::RLIMIT_MEMLOCK,
                libc::RLIMIT_STACK,
            ]) as i32;
            // What the process has besides the arena is some megabytes.
            let value = match n {
                1..3 if which == libc::RLIMIT_MEMLOCK as i32 => 8 << 20,
                1..3 => u64::MAX,
                3 => 0,
                _ if which == libc::RLIMIT_AS as i32 => (264 << 20) + rng.below(24 << 20),
                _ => rng.below(1 << 20),
            };
            Op::Limit { which, value }
        }
    }
}

/// Arguments from the edges of what is allowed, and beyond.
fn wrong(rng: &mut Rng, mix: &Mix) -> Op {
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
    match rng.below(14) {
        0..4 => {
            let file = rng.pick(&[0, 0, 1, 2, 3, 4, 6, 10]);
            let kind = rng.pick(&[0, 1, 2, 2, 3, 4, 8, 15]);
            let more = rng.pick(&[
                0, 0, 0x10, 0x10, 0x10_0000, 0x10_0010, 0x8_0010, 0x40, 0x100, 0x110, 0x2000,
                0x8_0000, 0x20_0000, 0x800, 0x1000,
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
        _ => Op::Mbind {
            addr,
            len: safe(addr, len),
            mode: rng.below(10),
            nodes: rng.below(3),
            flags: rng.pick(&[0, 0, 8]),
        },
    }
}

/// Mappings whose place the kernel chooses, hints, sizes about those of huge pages.
fn placed(rng: &mut Rng, mix: &Mix) -> Op {
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
            let offset = rng.pick(&[0, 0, PAGE, MIB, 2 * MIB]);
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

/// A history of so many operations; `special` is where the areas are that the kernel installs at exec, if there are.
pub(crate) fn history(seed: u64, mix: &Mix, special: Option<(u64, u64)>, length: usize) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mix = Mix {
        special: mix.special.and(special),
        ..*mix
    };
    (0..length).map(|_| op(&mut rng, &mix)).collect()
}
