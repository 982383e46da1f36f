//! Those of `/dev/zero`, which is a file and memory at once.

use super::{SHARED, ZERO_TO_READ, at, mmap, mprotect};
use crate::generate::{ARENA, PAGE};
use crate::op::Op;

pub(super) fn histories() -> Vec<(&'static str, Vec<Op>)> {
    let whole_memory_merges = Op::SetMemoryMerge { on: 1 };
    let unmergeable = |page, pages| Op::Madvise {
        addr: at(page),
        len: pages * PAGE,
        advice: 13,
    };
    let collapse = |addr, len| Op::Madvise {
        addr,
        len,
        advice: 25,
    };
    vec![
        (
            "a mapping of /dev/zero is marked mergeable only when it has joined whom it may",
            vec![
                whole_memory_merges,
                mmap(0, 10, 1, 0x12, 5),
                mmap(10, 2, 1, 0x12, 5),
                mmap(3, 2, 1, 0x12, 5),
                unmergeable(0, 12),
                mmap(12, 2, 1, 0x12, 5),
                mmap(20, 2, 1, 0x12, 5),
                mmap(24, 2, 1, 0x12, 5),
                mmap(22, 2, 1, 0x12, 5),
                mprotect(22, 2, 0),
                mprotect(22, 2, 1),
            ],
        ),
        (
            "zeroes that are shared but cannot be written to are anonymous memory",
            vec![
                mmap(0, 10, 1, SHARED, ZERO_TO_READ),
                mmap(10, 2, 0, SHARED, ZERO_TO_READ),
                mprotect(10, 2, 1),
                mprotect(3, 2, 3),
                mmap(20, 4, 1, 0x12, ZERO_TO_READ),
                mmap(24, 4, 1, SHARED, ZERO_TO_READ),
                Op::Madvise {
                    addr: at(0),
                    len: PAGE,
                    advice: 8,
                },
                // Nothing was stored, so it is numbered anew.
                Op::Mremap {
                    old: at(2),
                    old_len: 2 * PAGE,
                    new_len: 2 * PAGE,
                    flags: 3,
                    new: at(40),
                },
                Op::ForkInto,
                mprotect(4, 2, 0),
                mmap(8, 2, 3, SHARED, 5),
            ],
        ),
        (
            "offsets of /dev/zero overflow where it is decided whether a huge page fits",
            [
                1 << 63,
                (1 << 63) - (2 << 20) + PAGE,
                (1 << 63) - PAGE,
                0u64.wrapping_sub(8 << 20),
            ]
            .into_iter()
            .flat_map(|offset| {
                [1, 512, 1024, 1536].map(|pages| Op::Mmap {
                    addr: 0,
                    len: pages * PAGE,
                    prot: 1,
                    flags: 2,
                    file: 5,
                    offset,
                })
            })
            .collect(),
        ),
        (
            "private zeroes of /dev/zero that were written become a huge page as memory does",
            vec![
                Op::Mmap {
                    addr: 0,
                    len: 0x60_0000,
                    prot: 6,
                    flags: 0x10_0002,
                    file: 5,
                    offset: 0x20_0000,
                },
                Op::Munmap {
                    addr: 0x1000,
                    len: 0x2000,
                },
                Op::Mlock {
                    addr: 0,
                    len: 0x1000,
                    flags: 0,
                },
                collapse(0, 0x2000),
                mmap(0, 1024, 3, 0x12, 5),
                collapse(ARENA, PAGE),
                Op::Write { addr: at(0) },
                collapse(ARENA, PAGE),
            ],
        ),
    ]
}
