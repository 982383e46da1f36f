//! Tables that stay when the last of their pages has gone.

use samara_mm::abi::{
    MADV_COLLAPSE, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE,
    MADV_HUGEPAGE, MADV_NOHUGEPAGE,
};
use samara_mm::process::{ForkMode, Process};
use samara_mm::{Call, PMD_SIZE};

use super::huge::{access, advise, possible};
use super::{engine_field, field, map, reserve};
use crate::steady::steadily;
use crate::world::{Hosted, PAGE, anonymous, machine, process};

const TABLE: u64 = PMD_SIZE / PAGE;

/// With pages counted from the start.
#[derive(Clone, Copy, Debug)]
enum Do {
    Read(u64),
    Write(u64),
    Advise(u64, u64, i32),
    /// And map anew.
    Unmap(u64, u64),
}

fn remap(process: &Process<Hosted>, start: u64, pages: u64) {
    map(start, pages, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    process.perform(&anonymous(start, pages, 3)).unwrap();
}

/// Three stretches, the last of which has a page, so that the area has an owner.
fn prepare(start: u64, process: &Process<Hosted>, steps: &[Do]) -> bool {
    remap(process, start, 3 * TABLE);
    access(process, start + 2 * PMD_SIZE, true);
    steps.iter().all(|&step| match step {
        Do::Read(page) => {
            access(process, start + page * PAGE, false);
            true
        }
        Do::Write(page) => {
            access(process, start + page * PAGE, true);
            true
        }
        Do::Advise(page, pages, advice) => {
            advise(process, start + page * PAGE, pages * PAGE, advice) == Some(0)
        }
        Do::Unmap(page, pages) => {
            remap(process, start + page * PAGE, pages);
            true
        }
    })
}

const EMPTY: i32 = MADV_DONTNEED;

#[test]
fn what_was_emptied_page_by_page_has_a_table_still() {
    use Do::{Advise, Read, Unmap, Write};
    if !possible() {
        return;
    }
    let cases: [&[Do]; 16] = [
        &[],
        &[Write(0), Advise(0, 1, EMPTY)],
        &[Write(0), Advise(0, 1, MADV_DONTNEED_LOCKED)],
        &[Read(7), Advise(7, 1, EMPTY)],
        &[Write(0), Write(9), Advise(0, TABLE, EMPTY)],
        &[Write(0), Advise(0, TABLE - 1, EMPTY)],
        &[Write(0), Advise(0, 1, EMPTY), Advise(0, TABLE, EMPTY)],
        &[Write(0), Advise(0, 1, EMPTY), Advise(5, 1, EMPTY)],
        &[Advise(5, 1, EMPTY)],
        &[Write(0), Advise(0, 1, EMPTY), Write(1), Advise(1, 1, EMPTY)],
        &[Write(0), Advise(0, 1, EMPTY), Unmap(0, TABLE)],
        &[
            Write(0),
            Advise(0, 1, EMPTY),
            Unmap(0, 3 * TABLE),
            Write(2 * TABLE),
        ],
        // The first of two stretches was emptied in part.
        &[
            Write(TABLE - 1),
            Write(TABLE),
            Advise(TABLE - 1, TABLE + 1, EMPTY),
        ],
        &[Write(0), Write(TABLE), Advise(0, TABLE + 1, EMPTY)],
        &[
            Advise(0, 1, MADV_GUARD_INSTALL),
            Advise(0, 1, MADV_GUARD_REMOVE),
        ],
        &[
            Advise(0, TABLE, MADV_GUARD_INSTALL),
            Advise(0, TABLE, MADV_GUARD_REMOVE),
        ],
    ];
    for steps in cases {
        let start = reserve(3 * TABLE);
        let machine = machine(8 << 10);
        let process = process(&machine);
        if !prepare(start, &process, steps) {
            println!("skipped: {steps:?}");
            continue;
        }
        // Both stretches, and the first once more, which is huge now, or cannot be.
        for at in [start, start + PMD_SIZE, start] {
            if advise(&process, at, PMD_SIZE, MADV_COLLAPSE).is_none() {
                return;
            }
            for label in ["AnonHugePages:", "Rss:"] {
                let (found, real) = (engine_field(&process, label), field("smaps", start, label));
                assert_eq!(found, real, "{label} {steps:?}");
            }
        }
        access(&process, start + 3 * PAGE, true);
        machine.check().unwrap();
    }
}

#[test]
fn faults_bring_small_pages_where_a_table_is_left() {
    use Do::{Advise, Write};
    if !possible() {
        return;
    }
    for (pages, write) in [(1, true), (1, false), (TABLE, true), (TABLE, false)] {
        // khugepaged comes at once when memory is advised for the first time.
        let agree = steadily(|| {
            let start = reserve(3 * TABLE);
            let machine = machine(8 << 10);
            let process = process(&machine);
            let steps = [
                Advise(0, 3 * TABLE, MADV_NOHUGEPAGE),
                Write(0),
                Advise(0, pages, EMPTY),
                Advise(0, 3 * TABLE, MADV_HUGEPAGE),
            ];
            assert!(prepare(start, &process, &steps));
            access(&process, start + 5 * PAGE, write);
            access(&process, start + PMD_SIZE, true);
            let label = "AnonHugePages:";
            let real = field("smaps", start, label);
            if real == 0 {
                println!("skipped: the kernel has no huge page now");
                return Ok(());
            }
            let found = engine_field(&process, label);
            if found == real {
                Ok(())
            } else {
                Err((found, real))
            }
        });
        assert_eq!(agree, Ok(()), "{pages} {write}");
    }
}

#[test]
fn children_get_tables_without_pages() {
    use Do::{Advise, Write};
    if !possible() {
        return;
    }
    for pages in [1, TABLE] {
        let start = reserve(3 * TABLE);
        let machine = machine(8 << 10);
        let process = process(&machine);
        assert!(prepare(
            start,
            &process,
            &[Write(0), Advise(0, pages, EMPTY)]
        ));
        // SAFETY: the child of a process with threads makes a call, and ends.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let done = libc::madvise(start as *mut _, PMD_SIZE as usize, MADV_COLLAPSE);
                let error = if done == 0 {
                    0
                } else {
                    *libc::__errno_location()
                };
                libc::_exit(error);
            }
            child
        };
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the child of this test.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        let real = libc::WEXITSTATUS(status);
        if matches!(real, libc::ENOMEM | libc::EAGAIN | libc::EBUSY) {
            println!("skipped: the kernel has no huge page now");
            return;
        }
        for mode in [ForkMode::Copy, ForkMode::Share] {
            let other = process.fork(mode).unwrap();
            let call = Call::Madvise {
                addr: start,
                len: PMD_SIZE,
                advice: MADV_COLLAPSE,
            };
            let found = other.perform(&call).map_err(|error| error.0);
            assert_eq!(found.err().unwrap_or(0), real, "{pages} {mode:?}");
        }
    }
}
