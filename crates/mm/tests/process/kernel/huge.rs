//! The allocation and ownership of huge pages.

use std::fs;
use std::os::unix::fs::FileExt;

use samara_mm::abi::{
    MADV_COLLAPSE, MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
    MADV_POPULATE_READ,
};
use samara_mm::observe::PagemapWord;
use samara_mm::process::{ForkMode, Process};
use samara_mm::{Call, PMD_SIZE};

use super::{engine_field, field, map, reserve, touch};
use crate::world::{Hosted, PAGE, anonymous, machine, process};

const TABLE: u64 = PMD_SIZE / PAGE;

/// Returns `true` if this kernel has transparent huge pages.
pub(super) fn possible() -> bool {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let possible = enabled.is_ok_and(|text| !text.contains("[never]"));
    if !possible {
        println!("skipped: this kernel has no transparent huge pages");
    }
    possible
}

/// Advises the kernel and the engine, which are to answer alike; `None` where the kernel has no huge page just now.
pub(super) fn advise(process: &Process<Hosted>, addr: u64, len: u64, advice: i32) -> Option<i32> {
    // SAFETY: memory of this test.
    let real = match unsafe { libc::madvise(addr as *mut _, len as usize, advice) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    };
    if matches!(real, libc::ENOMEM | libc::EAGAIN | libc::EBUSY) {
        println!("skipped: the kernel has no huge page now");
        return None;
    }
    let found = process.perform(&Call::Madvise { addr, len, advice });
    assert_eq!(
        found
            .map_err(|error| error.0)
            .map_or_else(|error| error, |_| 0),
        real
    );
    Some(real)
}

/// Reads or writes in both.
pub(super) fn access(process: &Process<Hosted>, at: u64, write: bool) {
    touch(at, write);
    if write {
        process.copy_in(at, &[1]);
    } else {
        process.copy_out(at, &mut [0]);
    }
}

#[test]
fn collapse_by_madvise() {
    let _guard = super::without_children();
    if !possible() {
        return;
    }
    // Which pages are written, which are read, and how the area is protected afterwards.
    let cases: [(&[u64], &[u64], i32); 6] = [
        (&[], &[], 3),
        (&[], &[0, 5], 3),
        (&[7], &[], 3),
        (&[0, 511], &[3, 4], 3),
        (&[1, 2, 3], &[], 1),
        (&[1], &[0], 0),
    ];
    for (written, read, prot) in cases {
        let start = reserve(512);
        map(start, 512, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let machine = machine(2 << 10);
        let process = process(&machine);
        process.perform(&anonymous(start, 512, 3)).unwrap();
        for (pages, write) in [(read, false), (written, true)] {
            for page in pages {
                touch(start + page * PAGE, write);
                if write {
                    process.copy_in(start + page * PAGE, &[1]);
                } else {
                    process.copy_out(start + page * PAGE, &mut [0]);
                }
            }
        }
        let protect = Call::Mprotect {
            addr: start,
            len: PMD_SIZE,
            prot: prot as u64,
            pkey: -1,
        };
        process.perform(&protect).unwrap();
        // SAFETY: memory of this test.
        let real = unsafe {
            assert_eq!(libc::mprotect(start as *mut _, PMD_SIZE as usize, prot), 0);
            match libc::madvise(start as *mut _, PMD_SIZE as usize, MADV_COLLAPSE) {
                0 => Ok(0),
                _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
            }
        };
        if matches!(real, Err(libc::ENOMEM | libc::EAGAIN | libc::EBUSY)) {
            println!("skipped: the kernel has no huge page for {written:?} now");
            continue;
        }
        let advice = Call::Madvise {
            addr: start,
            len: PMD_SIZE,
            advice: MADV_COLLAPSE,
        };
        let found = process.perform(&advice).map_err(|error| error.0);
        assert_eq!(found, real, "{written:?} {read:?} {prot}");
        let label = "AnonHugePages:";
        assert_eq!(engine_field(&process, label), field("smaps", start, label));
    }
}

/// Exclusive pages in pagemap, after a child has written one page of a huge page that it shares
/// with its parent.
#[test]
fn exclusive_as_the_first_frame_is() {
    let _guard = super::with_children();
    if !possible() {
        return;
    }
    for written in [0, 1, 73, 511] {
        let start = reserve(TABLE);
        map(start, TABLE, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let machine = machine(4 << 10);
        let process = process(&machine);
        process.perform(&anonymous(start, TABLE, 3)).unwrap();
        let Some(0) = advise(&process, start, PMD_SIZE, MADV_HUGEPAGE) else {
            return;
        };
        access(&process, start + 9 * PAGE, true);
        let label = "AnonHugePages:";
        if field("smaps", start, label) != 2048 {
            println!("skipped: the kernel has no huge page now");
            return;
        }

        let at = start + written * PAGE;
        let (mut done, mut end) = ([0; 2], [0; 2]);
        // SAFETY: the child of a process with threads writes one byte of its memory, and calls what may be called in it.
        let child = unsafe {
            assert_eq!(libc::pipe(done.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(end.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                libc::close(end[1]);
                (at as *mut u8).write_volatile(1);
                libc::write(done[1], [1u8].as_ptr().cast(), 1);
                libc::read(end[0], [0u8].as_mut_ptr().cast(), 1);
                libc::_exit(0);
            }
            child
        };
        assert!(child > 0);
        let other = process.fork(ForkMode::Copy).unwrap();
        assert_eq!(other.copy_in(at, &[1]), 1);
        // SAFETY: descriptors of this test.
        unsafe { libc::read(done[0], [0u8].as_mut_ptr().cast(), 1) };

        let mut words = vec![0; TABLE as usize];
        process.pagemap(start, &mut words).unwrap();
        let file = fs::File::open("/proc/self/pagemap").unwrap();
        for (page, word) in (0..).zip(&words) {
            let mut real = [0; 8];
            file.read_exact_at(&mut real, (start / PAGE + page) * 8)
                .unwrap();
            let real = PagemapWord::from_bits_truncate(u64::from_ne_bytes(real));
            let found = PagemapWord::from_bits_truncate(*word);
            let of = PagemapWord::EXCLUSIVE | PagemapWord::PRESENT | PagemapWord::FILE;
            assert_eq!(found & of, real & of, "page {page}, {written} written");
        }
        for label in ["Private_Dirty:", "Shared_Dirty:", label] {
            assert_eq!(engine_field(&process, label), field("smaps", start, label));
        }
        // SAFETY: descriptors and the child of this test.
        unsafe {
            for descriptor in done.into_iter().chain(end) {
                libc::close(descriptor);
            }
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// The state of a stretch of 2 MiB before a collapse.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    Read,
    Written,
    Guarded,
    WrittenAndGuarded,
}

#[test]
fn stretches_collapse_up_to_the_first_that_cannot() {
    let _guard = super::without_children();
    use Before::{Guarded, Nothing, Read, Written, WrittenAndGuarded};
    if !possible() {
        return;
    }
    let all = [Nothing, Read, Written, Guarded, WrittenAndGuarded];
    for (first, second) in all.iter().flat_map(|a| all.map(|b| (*a, b))) {
        // The third has the owner of private pages come, and is not asked for.
        let (start, pages) = (reserve(3 * TABLE), 3 * TABLE);
        map(start, pages, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let machine = machine(4 << 10);
        let process = process(&machine);
        process.perform(&anonymous(start, pages, 3)).unwrap();
        access(&process, start + 2 * PMD_SIZE, true);
        for (at, before) in [(start, first), (start + PMD_SIZE, second)] {
            match before {
                Nothing | Guarded => {}
                Read => access(&process, at + PAGE, false),
                Written | WrittenAndGuarded => access(&process, at + PAGE, true),
            }
            if matches!(before, Guarded | WrittenAndGuarded) {
                let done = advise(&process, at + 2 * PAGE, PAGE, MADV_GUARD_INSTALL);
                if done != Some(0) {
                    println!("skipped: this kernel has no guards");
                    return;
                }
            }
        }
        if advise(&process, start, 2 * PMD_SIZE, MADV_COLLAPSE).is_some() {
            for label in ["AnonHugePages:", "Rss:"] {
                let (found, real) = (engine_field(&process, label), field("smaps", start, label));
                assert_eq!(found, real, "{label} {first:?} {second:?}");
            }
        }
        machine.check().unwrap();
    }
}

#[test]
fn reads_of_huge_pages_give_areas_an_owner() {
    let _guard = super::without_children();
    if !possible() {
        return;
    }
    type How = fn(&Process<Hosted>, u64) -> Option<i32>;
    let ways: [(&str, How); 6] = [
        ("nothing", |_, _| Some(0)),
        ("read", |process, at| {
            access(process, at, false);
            Some(0)
        }),
        ("written", |process, at| {
            access(process, at, true);
            Some(0)
        }),
        ("filled in", |process, at| {
            advise(process, at, PAGE, MADV_POPULATE_READ)
        }),
        ("read where small pages are", |process, at| {
            advise(process, at, PMD_SIZE, MADV_NOHUGEPAGE)?;
            access(process, at, false);
            advise(process, at, PMD_SIZE, MADV_HUGEPAGE)?;
            access(process, at + PAGE, false);
            Some(0)
        }),
        ("read in parts", |process, at| {
            // Half of the huge page's place belongs to another area.
            advise(process, at, PMD_SIZE / 2, MADV_NOHUGEPAGE)?;
            access(process, at + PMD_SIZE - PAGE, false);
            advise(process, at, PMD_SIZE / 2, MADV_HUGEPAGE)?;
            advise(process, at + PMD_SIZE - PAGE, PAGE, MADV_DONTNEED)
        }),
    ];
    for (way, make) in ways {
        let start = reserve(4 * TABLE);
        let machine = machine(4 << 10);
        let process = process(&machine);
        let area = |from: u64, pages: u64| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            map(start + from * PAGE, pages, 3, flags, -1);
            process
                .perform(&anonymous(start + from * PAGE, pages, 3))
                .unwrap();
            let (at, len) = (start + from * PAGE, pages * PAGE);
            advise(&process, at, len, MADV_HUGEPAGE)
        };
        area(0, TABLE);
        if make(&process, start) != Some(0) {
            continue;
        }
        // With an owner of its own, it does not join what comes in between.
        area(2 * TABLE, TABLE);
        access(&process, start + 2 * PMD_SIZE, true);
        area(TABLE, TABLE);
        let real = super::lines("maps", start, start + 4 * PMD_SIZE).len();
        let found = process.with_space(|space| space.area_count());
        // In addition to the reserved ones.
        assert_eq!(found, real - 1, "{way}");
    }
}
