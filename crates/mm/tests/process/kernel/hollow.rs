//! Tables that stay when the last of their pages has gone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// And leave a hole.
    Leave(u64, u64),
    /// From where, how many, whereto; what is there goes. Whether the old place stays mapped.
    Move(u64, u64, u64, bool),
}

impl Do {
    /// Which pages it concerns first, and how many.
    fn range(self) -> (u64, u64) {
        match self {
            Do::Read(page) | Do::Write(page) => (page, 1),
            Do::Advise(page, pages, _) | Do::Unmap(page, pages) => (page, pages),
            Do::Leave(page, pages) | Do::Move(page, pages, ..) => (page, pages),
        }
    }
}

fn remap(process: &Process<Hosted>, start: u64, pages: u64) {
    map(start, pages, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    process.perform(&anonymous(start, pages, 3)).unwrap();
}

/// Three stretches, the last of which has a page, so that the area has an owner.
fn prepare(start: u64, process: &Process<Hosted>, steps: &[Do]) -> bool {
    remap(process, start, 3 * TABLE);
    access(process, start + 2 * PMD_SIZE, true);
    steps.iter().all(|&step| perform(process, start, step))
}

/// Performs an operation on both, and returns `true` if it succeeded on both.
fn perform(process: &Process<Hosted>, start: u64, step: Do) -> bool {
    match step {
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
        Do::Leave(page, pages) => {
            let (addr, len) = (start + page * PAGE, pages * PAGE);
            // SAFETY: memory of this test, far below all places that the kernel chooses.
            assert_eq!(unsafe { libc::munmap(addr as *mut _, len as usize) }, 0);
            process.perform(&Call::Munmap { addr, len }).unwrap();
            true
        }
        Do::Move(from, pages, to, stays) => relocate(
            process,
            start + from * PAGE,
            pages,
            start + to * PAGE,
            stays,
        ),
    }
}

fn relocate(process: &Process<Hosted>, old: u64, pages: u64, new: u64, stays: bool) -> bool {
    let dontunmap = if stays { libc::MREMAP_DONTUNMAP } else { 0 };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | dontunmap;
    let len = pages * PAGE;
    // SAFETY: both places are this test's.
    let real = unsafe { libc::mremap(old as *mut _, len as usize, len as usize, flags, new) };
    let found = process.perform(&Call::Mremap {
        old_addr: old,
        old_len: len,
        new_len: len,
        flags: flags as u64,
        new_addr: new,
    });
    let real = match real {
        libc::MAP_FAILED => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        at => Ok(at as u64),
    };
    assert_eq!(found.map_err(|error| error.0), real);
    real.is_ok()
}

const EMPTY: i32 = MADV_DONTNEED;

#[test]
fn what_was_emptied_page_by_page_has_a_table_still() {
    let _guard = super::without_children();
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

/// Returns addresses of this test's own, with holes that no other code fills: far below all places
/// that the kernel chooses.
fn alone() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x20_0000_0000);
    NEXT.fetch_add(8 * PMD_SIZE, Relaxed)
}

fn is_mapped(process: &Process<Hosted>, at: u64) -> bool {
    process.with_space(|space| space.find(at).is_some_and(|area| area.start <= at))
}

/// Maps what is not mapped of the stretches, and collapses each.
fn collapse_each(start: u64, process: &Process<Hosted>, stretches: u64, steps: &[Do]) -> bool {
    for page in 0..stretches * TABLE {
        let at = start + page * PAGE;
        let mapped = is_mapped(process, at);
        if !mapped {
            remap(process, at, 1);
        }
    }
    for stretch in 0..stretches {
        let at = start + stretch * PMD_SIZE;
        let real = match real_collapse(at) {
            libc::ENOMEM | libc::EAGAIN | libc::EBUSY => return false,
            real => real,
        };
        let found = process.perform(&Call::Madvise {
            addr: at,
            len: PMD_SIZE,
            advice: MADV_COLLAPSE,
        });
        let found = found.map_or_else(|error| error.0, |_| 0);
        assert_eq!(found, real, "stretch {stretch} after {steps:?}");
    }
    true
}

fn real_collapse(at: u64) -> i32 {
    // SAFETY: memory of this test.
    match unsafe { libc::madvise(at as *mut _, PMD_SIZE as usize, MADV_COLLAPSE) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

#[test]
fn what_is_unmapped_or_moved_in_part_leaves_its_table() {
    let _guard = super::without_children();
    use Do::{Advise, Leave, Move, Unmap, Write};
    if !possible() {
        return;
    }
    const HALF: u64 = TABLE / 2;
    let cases: [&[Do]; 18] = [
        // The area goes on in the same stretch, or in its neighbours only.
        &[Write(0), Leave(0, 1)],
        &[Write(HALF), Leave(HALF, HALF)],
        &[Write(0), Leave(0, TABLE)],
        &[Write(0), Leave(0, HALF), Leave(HALF, HALF)],
        &[Write(HALF), Leave(0, HALF), Leave(HALF, HALF)],
        &[Write(0), Unmap(0, HALF)],
        &[Leave(0, HALF), Write(HALF), Unmap(0, TABLE)],
        // Two areas with a hole between, unmapped or mapped over by one call.
        &[Leave(10, 10), Write(0), Write(20), Leave(0, TABLE)],
        &[Leave(10, 10), Write(0), Leave(0, 30)],
        &[
            Leave(100, TABLE - 100),
            Leave(10, 10),
            Write(5),
            Unmap(0, 60),
        ],
        &[Leave(100, TABLE - 100), Write(5), Leave(0, 100)],
        // Moved: in part, as a whole, out of line, and without a page.
        &[Write(0), Move(0, 1, 2 * TABLE + 1, false)],
        &[Write(0), Move(0, TABLE, TABLE, false)],
        &[Write(7), Move(0, TABLE, TABLE, true)],
        &[Write(7), Move(0, TABLE, TABLE + 1, true)],
        &[Write(0), Move(1, 1, TABLE + 1, false)],
        &[Write(0), Advise(0, 1, EMPTY), Move(0, TABLE, TABLE, false)],
        &[Write(0), Advise(0, 1, EMPTY), Move(0, 9, TABLE + 9, false)],
    ];
    for steps in cases {
        let start = alone();
        let process = process(&machine(8 << 10));
        assert!(prepare(start, &process, steps), "{steps:?}");
        if !collapse_each(start, &process, 3, steps) {
            println!("skipped: {steps:?}");
        }
    }
}

#[test]
fn tables_stay_and_go_over_random_histories() {
    let _guard = super::without_children();
    if !possible() {
        return;
    }
    let seed = std::env::var("SAMARA_HOLLOW_SEED").map_or(1, |text| text.parse().unwrap());
    let rounds = std::env::var("SAMARA_HOLLOW_ROUNDS").map_or(60, |text| text.parse().unwrap());
    for seed in seed..seed + rounds {
        let _repeat = crate::repeat::Repeat(format!(
            "SAMARA_HOLLOW_SEED={seed} SAMARA_HOLLOW_ROUNDS=1 cargo test -p samara-mm --features hosted --test process -- --exact kernel::hollow::tables_stay_and_go_over_random_histories"
        ));
        let mut random = Random(seed);
        let start = alone();
        let process = process(&machine(8 << 10));
        let steps: Vec<Do> = (0..3 + random.below(12)).map(|_| random.step()).collect();
        let mut done = Vec::new();
        remap(&process, start, 3 * TABLE);
        access(&process, start + 2 * PMD_SIZE, true);
        for step in steps {
            let (first, pages) = step.range();
            // Only mapped memory is accessed, advised and moved.
            let mapped = |page: &u64| is_mapped(&process, start + page * PAGE);
            if !matches!(step, Do::Unmap(..) | Do::Leave(..))
                && !(first..first + pages).all(|page| mapped(&page))
            {
                continue;
            }
            done.push(step);
            if !perform(&process, start, step) {
                done.pop();
            }
        }
        if !collapse_each(start, &process, 3, &done) {
            println!("skipped: {done:?}");
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }

    /// Some of the pages of three stretches; their ends are those of a stretch as often as not.
    fn range(&mut self) -> (u64, u64) {
        let first = match self.below(3) {
            0 => self.below(3) * TABLE,
            1 => self.below(3) * TABLE + self.below(4) * TABLE / 4,
            _ => self.below(3 * TABLE),
        };
        let most = 3 * TABLE - first;
        let pages = match self.below(4) {
            0 => 1,
            1 => TABLE - first % TABLE,
            2 => TABLE / 4 * (1 + self.below(5)),
            _ => 1 + self.below(most),
        };
        (first, pages.min(most))
    }

    fn step(&mut self) -> Do {
        let (first, pages) = self.range();
        match self.below(9) {
            0..3 => Do::Write(first),
            3 => Do::Read(first),
            4 => Do::Advise(first, pages, EMPTY),
            5 => Do::Unmap(first, pages),
            6 => Do::Leave(first, pages),
            _ => {
                let to = match self.below(3) {
                    0 => self.below(3) * TABLE + first % TABLE,
                    1 => self.below(3) * TABLE,
                    _ => self.below(3 * TABLE),
                };
                let to = to.min(3 * TABLE - pages);
                if to < first + pages && first < to + pages {
                    return Do::Write(to);
                }
                Do::Move(first, pages, to, self.below(4) == 0)
            }
        }
    }
}

#[test]
fn faults_bring_small_pages_where_a_table_is_left() {
    let _guard = super::without_children();
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
    let _guard = super::with_children();
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
