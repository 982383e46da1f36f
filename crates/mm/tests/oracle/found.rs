//! Short histories that once ended differently, as the random ones had found them.

mod zeroes;

use crate::generate::{ARENA, PAGE};
use crate::op::Op;

/// Private anonymous memory at a fixed place.
const ANONYMOUS: u64 = 0x32;
const SHARED: u64 = 0x11;
/// `/dev/zero`, opened for reading only.
const ZERO_TO_READ: usize = 10;

fn at(page: u64) -> u64 {
    ARENA + page * PAGE
}

fn mmap(page: u64, pages: u64, prot: u64, flags: u64, file: usize) -> Op {
    Op::Mmap {
        addr: at(page),
        len: pages * PAGE,
        prot,
        flags,
        file,
        offset: if file == 0 { 0 } else { page * PAGE },
    }
}

fn munmap(page: u64, pages: u64) -> Op {
    Op::Munmap {
        addr: at(page),
        len: pages * PAGE,
    }
}

/// `mbind` to the first node.
fn bind(page: u64, pages: u64, mode: u64) -> Op {
    Op::Mbind {
        addr: at(page),
        len: pages * PAGE,
        mode,
        nodes: 1,
        flags: 0,
    }
}

fn home(page: u64, pages: u64) -> Op {
    Op::HomeNode {
        addr: at(page),
        len: pages * PAGE,
        home: 0,
        flags: 0,
    }
}

fn mprotect(page: u64, pages: u64, prot: u64) -> Op {
    Op::Mprotect {
        addr: at(page),
        len: pages * PAGE,
        prot,
    }
}

/// By what they show. `special` are the areas that the kernel installs at exec, ascending.
pub(crate) fn histories(special: &[(u64, u64)]) -> Vec<(&'static str, Vec<Op>)> {
    let whole = (
        special.first().map_or(0, |area| area.0),
        special.last().map_or(0, |area| area.1),
    );
    let with_key = |pkey| Op::PkeyMprotect {
        addr: at(0),
        len: PAGE,
        prot: 1,
        pkey,
    };
    let on_special = |advice| Op::Madvise {
        addr: whole.0,
        len: whole.1 - whole.0,
        advice,
    };
    let read_all = |(start, end): (u64, u64)| {
        let pages = (start..end).step_by(PAGE as usize);
        pages.map(|addr| Op::Read { addr }).collect::<Vec<_>>()
    };
    let attach = |segment| Op::Shmat {
        segment,
        addr: at(0),
        flags: 0o40000,
    };
    let rest = vec![
        (
            "what grows down is watched as the area is",
            vec![
                mmap(0, 7, 3, 0x132, 0),
                munmap(0, 6),
                Op::UffdRegister {
                    watcher: 3,
                    addr: at(0),
                    len: 7 * PAGE,
                    mode: 1,
                },
                Op::Write { addr: at(0) },
                mprotect(2, 1, 1),
                Op::UffdClose { watcher: 3 },
                mprotect(2, 1, 3),
            ],
        ),
        (
            "what grows up to an untouched area joins it, though its own pages were inherited",
            vec![
                mmap(0, 4, 3, ANONYMOUS, 0),
                mmap(5, 4, 3, ANONYMOUS, 0),
                Op::Write { addr: at(0) },
                Op::ForkInto,
                Op::Mremap {
                    old: at(3),
                    old_len: PAGE,
                    new_len: 2 * PAGE,
                    flags: 0,
                    new: 0,
                },
            ],
        ),
        (
            "a home node keeps apart, up to the first policy that can have none",
            vec![
                mmap(0, 8, 3, 0x32, 0),
                bind(0, 2, 2),
                home(1, 1),
                home(0, 2),
                bind(4, 1, 3),
                bind(5, 3, 5),
                home(0, 8),
                home(5, 1),
                bind(4, 1, 5),
                home(4, 1),
                bind(0, 2, 2),
                home(3, 1),
                home(20, 1),
                munmap(1, 1),
                home(0, 3),
            ],
        ),
        (
            "what is mapped anew by remap_file_pages has no policy",
            vec![
                mmap(0, 3, 2, 0x31, 0),
                Op::Mbind {
                    addr: at(0),
                    len: PAGE,
                    mode: 5,
                    nodes: 1,
                    flags: 0,
                },
                Op::RemapFilePages {
                    addr: at(0),
                    len: 2 * PAGE,
                    prot: 0,
                    pgoff: 0,
                    flags: 0,
                },
            ],
        ),
        (
            "remap_file_pages of the lowest pages needs the privilege again",
            vec![
                Op::Mmap {
                    addr: 0,
                    len: 8 * PAGE,
                    prot: 6,
                    flags: 0x10_0021,
                    file: 0,
                    offset: 0,
                },
                Op::DropCaps,
                Op::RemapFilePages {
                    addr: 0,
                    len: 3 * PAGE,
                    prot: 0,
                    pgoff: 2,
                    flags: 0,
                },
            ],
        ),
        (
            "advice for several ranges ends at the first that fails",
            [
                (at(0), PAGE),
                (at(3), 4 * PAGE),
                (at(0) + 1, 0),
                (at(9), PAGE),
            ]
            .into_iter()
            .flat_map(|(addr, len)| {
                [(at(1), PAGE), (at(2) + 1, 0), (1 << 63, 0), (at(8), !PAGE)].map(
                    |(then, then_len)| Op::ProcessMadvise {
                        addr,
                        len,
                        then,
                        then_len,
                        advice: 2,
                        flags: 0,
                    },
                )
            })
            .fold(vec![mmap(0, 6, 3, ANONYMOUS, 0)], |mut all, op| {
                all.push(op);
                all
            }),
        ),
        (
            "key 0 can be given away again once it was freed",
            vec![Op::PkeyFree { pkey: 0 }, Op::PkeyAlloc { rights: 0 }],
        ),
        (
            "a key is taken although the call fails, where the processor has none",
            vec![
                mmap(0, 2, 3, ANONYMOUS, 0),
                with_key(0),
                Op::PkeyAlloc { rights: 4 },
                Op::PkeyAlloc { rights: 1 },
                Op::PkeyAlloc { rights: 0 },
                with_key(0),
                with_key(1),
                Op::PkeyFree { pkey: 0 },
                Op::PkeyAlloc { rights: 0 },
                with_key(-1),
            ],
        ),
        (
            "a key is set aside although the mapping is refused",
            vec![
                Op::Mmap {
                    addr: ARENA + 1,
                    len: PAGE,
                    prot: 4,
                    flags: ANONYMOUS,
                    file: 0,
                    offset: 0,
                },
                Op::PkeyAlloc { rights: 0 },
            ],
        ),
        (
            "special areas have no file to remove from",
            vec![on_special(9)],
        ),
        (
            "a huge page seems to fit into an area at the lowest addresses",
            vec![
                Op::Mmap {
                    addr: 0,
                    len: PAGE,
                    prot: 0,
                    flags: 0x10_0002,
                    file: 4,
                    offset: 0,
                },
                Op::Madvise {
                    addr: 0,
                    len: PAGE,
                    advice: 25,
                },
            ],
        ),
        (
            "what lies within a huge page is not made one, nor what was never written",
            {
                // 8 MiB, of which the first is aligned.
                let collapse = |page: u64, pages: u64| Op::Madvise {
                    addr: at(0x4_0000 + page),
                    len: pages * PAGE,
                    advice: 25,
                };
                vec![
                    mmap(0x4_0000, 2048, 3, ANONYMOUS, 0),
                    collapse(0, 1),
                    Op::Write { addr: at(0x4_0000) },
                    collapse(0, 1),
                    collapse(1, 1),
                    collapse(511, 1),
                    collapse(511, 2),
                    collapse(513, 3),
                ]
            },
        ),
        (
            "what a special area has no page for cannot be read, wherever the area is",
            {
                let mut ops = read_all(whole);
                for (number, &(start, end)) in special.iter().enumerate() {
                    let to = at(0x100 * number as u64);
                    ops.push(Op::Mremap {
                        old: start,
                        old_len: end - start,
                        new_len: end - start,
                        flags: 3,
                        new: to,
                    });
                    ops.extend(read_all((to, to + (end - start))));
                }
                ops
            },
        ),
        (
            "special areas can be wiped on fork",
            vec![on_special(18), Op::ForkInto],
        ),
        (
            "a sealed part of an attachment stays",
            vec![
                attach(2),
                Op::Mseal {
                    addr: at(1),
                    len: PAGE,
                    flags: 0,
                },
                Op::Shmdt { addr: at(0) },
            ],
        ),
        (
            "the middle of an attachment over itself",
            vec![
                attach(2),
                Op::RemapFilePages {
                    addr: at(4),
                    len: PAGE,
                    prot: 0,
                    pgoff: 4,
                    flags: 0,
                },
                Op::Shmdt { addr: at(0) },
            ],
        ),
        (
            "a stack that a limit keeps from growing has an owner",
            vec![
                mmap(40, 4, 3, ANONYMOUS | 0x100, 0),
                Op::Limit {
                    which: libc::RLIMIT_STACK as i32,
                    value: 4 * PAGE,
                },
                Op::Write { addr: at(30) },
                mprotect(40, 2, 1),
            ],
        ),
        (
            "a write seal refuses shared writing, now and later",
            vec![
                mmap(0, 1, 3, SHARED, 8),
                mmap(0, 1, 1, SHARED, 8),
                mprotect(0, 1, 3),
                mmap(1, 1, 3, 0x12, 8),
            ],
        ),
        (
            "what dup makes is the same open file, and another open is not",
            vec![
                mmap(0, 1, 1, SHARED, 1),
                mmap(1, 1, 1, SHARED, 9),
                mmap(2, 1, 1, SHARED, 7),
                mmap(3, 1, 1, SHARED, 1),
            ],
        ),
        (
            "memory does not become executable",
            vec![
                mmap(0, 2, 3, ANONYMOUS, 0),
                mmap(4, 2, 7, ANONYMOUS, 0),
                mmap(8, 1, 1, ANONYMOUS, 0),
                Op::SetMdwe { bits: 2 },
                Op::SetMdwe { bits: 3 },
                Op::SetMdwe { bits: 1 },
                mprotect(0, 1, 5),
                mprotect(8, 1, 5),
                mprotect(4, 1, 7),
                mprotect(4, 1, 5),
                mmap(10, 1, 7, ANONYMOUS, 0),
                Op::ForkInto,
                mmap(10, 1, 7, ANONYMOUS, 0),
            ],
        ),
        (
            "all areas are merged by their contents",
            vec![
                mmap(0, 1, 3, ANONYMOUS, 0),
                mmap(2, 1, 3, 0x12, 1),
                mmap(4, 1, 3, SHARED, 1),
                Op::SetMemoryMerge { on: 1 },
                mmap(1, 1, 3, ANONYMOUS, 0),
                Op::Madvise {
                    addr: at(1),
                    len: PAGE,
                    advice: 13,
                },
                Op::SetMemoryMerge { on: 1 },
                Op::Brk { delta: 1 << 20 },
                Op::ForkInto,
                mmap(6, 1, 1, 0x12, 4),
                Op::SetMemoryMerge { on: 0 },
                mmap(7, 1, 1, ANONYMOUS, 0),
            ],
        ),
        (
            "a stack that is not charged grows by no more than there is memory",
            {
                // Just within the limit of these tests, beyond the memory of most machines.
                let stack = 0x4_0000_0000;
                let below = |bytes: u64| Op::Read {
                    addr: at(stack) - bytes,
                };
                vec![
                    Op::Limit {
                        which: 3,
                        value: u64::MAX,
                    },
                    mmap(stack, 1, 1, ANONYMOUS | 0x100, 0),
                    below(60 << 30),
                    below(1 << 20),
                ]
            },
        ),
        (
            "remap_file_pages of what is locked asks whether one may lock, of what is to be locked only how much",
            {
                let remap = Op::RemapFilePages {
                    addr: at(0),
                    len: PAGE,
                    prot: 0,
                    pgoff: 0,
                    flags: 0,
                };
                let limit = |value| Op::Limit { which: 8, value };
                vec![
                    attach(2),
                    Op::DropCaps,
                    limit(PAGE),
                    Op::Mlockall { flags: 2 },
                    limit(0),
                    remap,
                    limit(PAGE),
                    Op::Mlock {
                        addr: at(0),
                        len: PAGE,
                        flags: 0,
                    },
                    limit(0),
                    remap,
                ]
            },
        ),
        (
            "a shared object that is refused leaves nothing of what was there",
            {
                // Beyond the memory of most machines.
                const PAGES: u64 = 1 << 30;
                vec![
                    mmap(0, 12, 3, ANONYMOUS, 0),
                    mprotect(4, 4, 1),
                    mmap(2, PAGES, 3, ANONYMOUS, 0),
                    mmap(2, PAGES, 1, 0x31, 0),
                    mmap(0, 12, 3, ANONYMOUS, 0),
                    mmap(8, PAGES, 0, 0x31, 0),
                    mmap(0, 12, 3, ANONYMOUS, 0),
                    Op::Limit {
                        which: 9,
                        value: 1 << 36,
                    },
                    mmap(2, PAGES, 1, 0x31, 0),
                ]
            },
        ),
        (
            "two areas that have become one are too large for a child",
            {
                // Less each than many machines have, and more together.
                const HALF: u64 = 20 << 30;
                vec![
                    mmap(0, HALF / PAGE, 3, ANONYMOUS, 0),
                    mmap(HALF / PAGE, HALF / PAGE, 3, ANONYMOUS, 0),
                    Op::ForkInto,
                ]
            },
        ),
    ];
    zeroes::histories().into_iter().chain(rest).collect()
}
