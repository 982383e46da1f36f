//! Short histories of huge pages that once ended differently, or show a rule that random ones seldom come to.

use crate::generate::{HUGE, PAGE};
use crate::op::{HUGE_FILES, Op};

const AT: u64 = 0x2_0000_0000;
/// At a fixed place, from the pool.
const PRIVATE: u64 = 0x4_0032;
const SHARED: u64 = 0x4_0031;
/// The same of files.
const PRIVATE_FILE: u64 = 0x12;
const SHARED_FILE: u64 = 0x11;
const NORESERVE: u64 = 0x4000;
const POPULATE: u64 = 0x8000;
const NO_FILE: usize = 0;
const FILE: usize = HUGE_FILES;

fn at(page: u64) -> u64 {
    AT + page * HUGE
}

/// With the offset in huge pages.
fn mmap(page: u64, pages: u64, flags: u64, file: usize, offset: u64) -> Op {
    Op::Mmap {
        addr: at(page),
        len: pages * HUGE,
        prot: 3,
        flags,
        file,
        offset: offset * HUGE,
    }
}

fn write(page: u64) -> Op {
    Op::Write {
        addr: at(page) + 17 * PAGE,
    }
}

fn read(page: u64) -> Op {
    Op::Read { addr: at(page) }
}

fn munmap(page: u64, pages: u64) -> Op {
    Op::Munmap {
        addr: at(page),
        len: pages * HUGE,
    }
}

fn madvise(page: u64, pages: u64, advice: i32) -> Op {
    Op::Madvise {
        addr: at(page),
        len: pages * HUGE,
        advice,
    }
}

fn mremap(old: (u64, u64), new: (u64, u64), flags: u64) -> Op {
    Op::Mremap {
        old: at(0) + old.0,
        old_len: old.1,
        new_len: new.1,
        flags,
        new: at(0) + new.0,
    }
}

/// `mbind` to no node, if `flags` is 1 only where no page is.
fn bind(from: u64, len: u64, flags: u64) -> Op {
    Op::Mbind {
        addr: at(0) + from,
        len,
        mode: 4,
        nodes: 0,
        flags,
    }
}

const DONTNEED: i32 = 4;
const REMOVE: i32 = 9;

/// By what they show. The pool has 12 pages, and two more may be made.
pub(crate) fn histories() -> Vec<(&'static str, Vec<Op>)> {
    let odd = |addr: u64, len: u64, flags: u64| Op::Mmap {
        addr,
        len,
        prot: 3,
        flags,
        file: NO_FILE,
        offset: 0,
    };
    vec![
        (
            "a policy is not set where pages lie elsewhere",
            vec![
                mmap(0, 3, PRIVATE, NO_FILE, 0),
                bind(0, 3 * HUGE, 1),
                write(1),
                bind(0, 3 * HUGE, 1),
                // Before it is seen that no area of huge pages is cut there.
                bind(HUGE, PAGE, 1),
                bind(0, PAGE, 1),
                bind(2 * HUGE, HUGE, 1),
                bind(0, 3 * HUGE, 0),
                bind(0, 3 * HUGE, 1),
            ],
        ),
        (
            "a page of a file lies elsewhere where it has been mapped, not where the file has it",
            vec![
                mmap(0, 3, SHARED_FILE, FILE, 0),
                bind(0, 3 * HUGE, 1),
                read(1),
                bind(0, HUGE, 1),
                bind(0, 3 * HUGE, 1),
                bind(0, 3 * HUGE, 3),
                // The same page, which has not been mapped here yet; then it is, to be read.
                mmap(4, 3, SHARED_FILE, FILE, 0),
                bind(4 * HUGE, 3 * HUGE, 1),
                mmap(8, 3, PRIVATE_FILE, FILE, 0),
                bind(8 * HUGE, 3 * HUGE, 1),
                read(9),
                bind(8 * HUGE, 3 * HUGE, 1),
                write(5),
                bind(4 * HUGE, 3 * HUGE, 1),
                // It leaves this place, but not the file.
                madvise(0, 3, DONTNEED),
                bind(0, 3 * HUGE, 1),
                bind(4 * HUGE, 3 * HUGE, 1),
                // It leaves the file, too, and another comes.
                madvise(0, 3, REMOVE),
                bind(4 * HUGE, 3 * HUGE, 1),
                bind(8 * HUGE, 3 * HUGE, 1),
                write(1),
                bind(4 * HUGE, 3 * HUGE, 1),
                bind(0, 3 * HUGE, 1),
            ],
        ),
        (
            "pages of files go where their mapping goes, and children map them anew",
            vec![
                mmap(0, 3, SHARED, NO_FILE, 0),
                write(1),
                mremap((HUGE, HUGE), (8 * HUGE, HUGE), 3),
                bind(8 * HUGE, HUGE, 1),
                bind(0, HUGE, 1),
                mmap(1, 1, SHARED, NO_FILE, 0),
                bind(0, 3 * HUGE, 1),
                munmap(8, 1),
                mmap(8, 1, SHARED, NO_FILE, 0),
                bind(8 * HUGE, HUGE, 1),
                write(8),
                mmap(4, 2, PRIVATE_FILE, FILE, 0),
                mmap(6, 2, SHARED_FILE, FILE, 0),
                write(6),
                read(4),
                write(5),
                Op::ForkInto,
                bind(8 * HUGE, HUGE, 1),
                bind(4 * HUGE, HUGE, 1),
                bind(5 * HUGE, HUGE, 1),
                bind(6 * HUGE, HUGE, 1),
                read(6),
                bind(6 * HUGE, HUGE, 1),
            ],
        ),
        (
            "where one end of a range may be cut and the other may not, the first cut stays",
            vec![
                mmap(0, 4, PRIVATE, NO_FILE, 0),
                Op::Mprotect {
                    addr: at(1),
                    len: HUGE + PAGE,
                    prot: 7,
                },
                Op::Mprotect {
                    addr: at(2) + PAGE,
                    len: HUGE,
                    prot: 7,
                },
            ],
        ),
        (
            "of what is given up at once, all is promised again or nothing, as there are surplus pages or not",
            vec![
                mmap(0, 11, PRIVATE, NO_FILE, 0),
                mmap(12, 2, PRIVATE | POPULATE, NO_FILE, 0),
                madvise(12, 2, DONTNEED),
                write(12),
                write(13),
                madvise(12, 1, DONTNEED),
                madvise(13, 1, DONTNEED),
            ],
        ),
        (
            "a page that a child has comes back with a promise, and until then there is one too few",
            vec![
                mmap(0, 8, PRIVATE, NO_FILE, 0),
                write(0),
                write(1),
                write(2),
                write(3),
                Op::ForkKeep,
                munmap(0, 8),
                mmap(8, 9, PRIVATE | POPULATE | NORESERVE, NO_FILE, 0),
                munmap(8, 2),
                // No more are promised than are free.
                mmap(0, 4, PRIVATE, NO_FILE, 0),
                mmap(0, 2, PRIVATE, NO_FILE, 0),
            ],
        ),
        (
            "a promise that nothing is left for is kept by a page beyond the pool",
            vec![
                mmap(0, 4, PRIVATE_FILE | POPULATE, FILE, 0),
                Op::ForkKeep,
                munmap(0, 4),
                mmap(0, 4, PRIVATE, NO_FILE, 0),
                mmap(4, 8, PRIVATE | POPULATE | NORESERVE, NO_FILE, 0),
                write(0),
                write(1),
                write(2),
                write(3),
                madvise(0, 4, DONTNEED),
            ],
        ),
        (
            "a hole in a file takes away what private mappings have there",
            vec![
                mmap(0, 4, PRIVATE_FILE, FILE, 0),
                mmap(4, 4, SHARED_FILE, FILE, 0),
                write(1),
                write(2),
                write(6),
                Op::ForkKeep,
                madvise(5, 2, REMOVE),
                write(1),
                munmap(0, 4),
            ],
        ),
        (
            "an object that is replaced lets its pages go at the end of the call",
            vec![
                mmap(0, 12, SHARED, NO_FILE, 0),
                mmap(0, 12, PRIVATE, NO_FILE, 0),
                mmap(0, 12, PRIVATE, NO_FILE, 0),
                mmap(0, 12, PRIVATE | NORESERVE | POPULATE, NO_FILE, 0),
                mmap(0, 12, SHARED, NO_FILE, 0),
                mmap(0, 12, SHARED | NORESERVE | POPULATE, NO_FILE, 0),
            ],
        ),
        (
            "what was taken from a child is shared with the next",
            vec![
                mmap(0, 1, PRIVATE, NO_FILE, 0),
                write(0),
                Op::ForkKeep,
                mmap(1, 13, SHARED | POPULATE, NO_FILE, 0),
                write(0),
                Op::ForkInto,
                write(0),
                munmap(0, 14),
            ],
        ),
        (
            "what is mapped to be written makes the file longer",
            vec![
                mmap(0, 1, SHARED_FILE, FILE, 9),
                write(0),
                mmap(1, 1, PRIVATE_FILE, FILE, 11),
                write(1),
                Op::Mmap {
                    addr: at(2),
                    len: HUGE,
                    prot: 1,
                    flags: SHARED_FILE,
                    file: FILE,
                    offset: 20 * HUGE,
                },
                Op::Read { addr: at(2) },
            ],
        ),
        (
            "lengths are rounded up, addresses are not, and offsets are looked at last",
            vec![
                odd(at(0), PAGE, PRIVATE),
                odd(at(0) + PAGE, HUGE, PRIVATE),
                odd(at(3) + PAGE, HUGE, PRIVATE ^ 0x10),
                odd(at(0), u64::MAX, PRIVATE),
                odd(at(0), u64::MAX - HUGE, PRIVATE),
                odd(at(0), HUGE, PRIVATE | 22 << 26),
                odd(at(0), HUGE, PRIVATE | 30 << 26),
                odd(at(1), HUGE, PRIVATE | NORESERVE | 30 << 26),
                odd(at(0), PAGE, PRIVATE | NORESERVE | 30 << 26),
                munmap(0, 1),
                Op::Mmap {
                    addr: at(0),
                    len: 2 * HUGE,
                    prot: 3,
                    flags: SHARED_FILE,
                    file: FILE,
                    offset: PAGE,
                },
            ],
        ),
        (
            "huge pages move and shrink, and do not grow",
            vec![
                mmap(0, 3, PRIVATE | NORESERVE, NO_FILE, 0),
                mremap((0, 3 * HUGE), (0, 4 * HUGE), 1),
                mremap((0, 0), (8 * HUGE, HUGE), 3),
                mremap((0, HUGE), (8 * HUGE, HUGE), 7),
                mremap((PAGE, HUGE), (8 * HUGE, HUGE), 3),
                mremap((0, HUGE), (8 * HUGE + PAGE, HUGE), 3),
                mremap((0, 3 * HUGE), (PAGE, HUGE), 1),
                mremap((HUGE, PAGE), (8 * HUGE, PAGE), 3),
                mremap((0, 3 * HUGE), (0, HUGE + PAGE), 1),
                mremap((0, 9 * HUGE), (12 * HUGE, 9 * HUGE), 3),
            ],
        ),
        (
            "advice that huge pages take",
            (0..26)
                .chain([102, 103])
                .filter(|advice| !matches!(advice, 5..=7))
                .flat_map(|advice| {
                    let part = |addr, len| Op::Madvise { addr, len, advice };
                    [
                        mmap(0, 3, PRIVATE, NO_FILE, 0),
                        write(0),
                        part(at(0), HUGE + PAGE),
                        part(at(1), HUGE),
                        part(at(1) + PAGE, HUGE - PAGE),
                        mmap(0, 3, SHARED, NO_FILE, 0),
                        write(1),
                        part(at(0), HUGE + PAGE),
                        part(at(1), HUGE),
                        part(at(1) + PAGE, 2 * HUGE - PAGE),
                    ]
                })
                .collect(),
        ),
        ("only a gap with room to spare is found", {
            let hint = |pages: u64| Op::Mmap {
                addr: 0,
                len: pages * HUGE,
                prot: 3,
                flags: PRIVATE ^ 0x10,
                file: NO_FILE,
                offset: 0,
            };
            vec![
                hint(1),
                hint(3),
                hint(1),
                Op::Mlockall { flags: 2 },
                hint(2),
            ]
        }),
    ]
}
