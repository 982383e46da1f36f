//! A generator for each call, or family of calls, that makes mostly sense. The range is drawn already.

use super::rng::Rng;
use super::suites::Mix;
use super::{ARENA, PAGE, file, protection, range};
use crate::op::{Op, WATCHERS};

pub(super) fn mmap(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
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

pub(super) fn mprotect(rng: &mut Rng, addr: u64, len: u64) -> Op {
    Op::Mprotect {
        addr,
        len,
        prot: protection(rng),
    }
}

pub(super) fn mremap(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
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

/// A copy whose source stays: most times just below it or just above, and of an area that has neighbours.
pub(super) fn copy(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
    let (anywhere, _) = range(rng, mix);
    let new = rng.pick(&[addr + len, addr.saturating_sub(len).max(ARENA), anywhere]);
    Op::Mremap {
        old: addr,
        old_len: len,
        new_len: len,
        flags: if rng.chance(90) { 7 } else { 5 },
        new,
    }
}

/// From the lowest heap address.
pub(super) fn brk(rng: &mut Rng) -> Op {
    let delta = rng.below(64) as i64 * 4096 + rng.pick(&[0, 0, 1, 17, -1, -4096]);
    Op::Brk { delta }
}

/// For one range, or in some suites for two at once.
pub(super) fn madvise(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
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

/// Guard markers put and taken.
pub(super) fn guards(rng: &mut Rng, addr: u64, len: u64) -> Op {
    Op::Madvise {
        addr,
        len,
        advice: rng.pick(&[102, 103]),
    }
}

pub(super) fn lock(rng: &mut Rng, mix: &Mix, addr: u64, len: u64) -> Op {
    match rng.below(8) {
        0..4 => Op::Mlock {
            addr,
            len,
            flags: rng.below(2),
        },
        4..7 => Op::Munlock { addr, len },
        _ if mix.odd => rng.pick(&[Op::Munlockall, Op::Mlockall { flags: 2 }]),
        _ => Op::Munlock { addr, len },
    }
}

pub(super) fn shm(rng: &mut Rng, addr: u64) -> Op {
    match rng.below(3) {
        0 => Op::Shmdt { addr },
        _ => Op::Shmat {
            segment: 1 + rng.below(2) as usize,
            addr,
            flags: rng.pick(&[0, 0o10000, 0o40000, 0o40000, 0o140000]),
        },
    }
}

/// Draws a call that changes what keeps neighbours apart and shows in no map: policies, names, page
/// offsets.
pub(super) fn policies(rng: &mut Rng, addr: u64, len: u64) -> Op {
    match rng.below(5) {
        0 => Op::RemapFilePages {
            addr,
            len,
            prot: 0,
            // Within the files, as above: in the sparse arena addresses lie further apart than they are long.
            pgoff: addr.wrapping_sub(ARENA) / PAGE % 0x2000 + rng.below(2),
            flags: 0,
        },
        1 => Op::SetName {
            addr,
            len,
            name: rng.below(3) as usize,
        },
        2 => Op::HomeNode {
            addr,
            len,
            home: 0,
            flags: 0,
        },
        _ => Op::Mbind {
            addr,
            len,
            mode: rng.pick(&[0, 1, 2, 3, 4, 5, 0x8001, 0x4002, 7]),
            // Node 0 is there; others are on few machines.
            nodes: rng.pick(&[0, 1, 1, 2, 3, 6, 1 << 63 | 1]),
            flags: 0,
        },
    }
}

/// Protection keys, and what is set for the whole address space.
pub(super) fn modes(rng: &mut Rng, addr: u64, len: u64) -> Op {
    let pkey = rng.pick(&[-1, 0, 1, 1, 2, 2, 3, 15, 16]);
    match rng.below(22) {
        20.. => Op::ReadImpliesExec { on: rng.below(2) },
        0..4 => Op::PkeyAlloc {
            rights: rng.pick(&[0, 0, 0, 4]),
        },
        // A program that frees key 0 ends at the next page that is only executable, because the
        // kernel takes key 0 for that.
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

/// Userfaultfds: registered, taken back, closed.
pub(super) fn watch(rng: &mut Rng, addr: u64, len: u64) -> Op {
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

/// A soft limit, or all privileges given up.
pub(super) fn limit(rng: &mut Rng) -> Op {
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
