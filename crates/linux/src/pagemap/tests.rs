//! Pages of the test itself, as both ways of asking tell of them.

use super::*;

/// Returns a private anonymous mapping of 16 pages, of which the listed ones are written, page 9 is
/// only read and page 12 has a guard marker, if the kernel knows such.
fn arena(written: &[usize]) -> (*mut u8, usize) {
    let length = 16 * PAGE as usize;
    // SAFETY: a new mapping, placed by the kernel.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    }
    .cast::<u8>();
    for &page in written {
        // SAFETY: the page lies in the mapping just made.
        unsafe { base.add(page * PAGE as usize).write_volatile(1) };
    }
    // SAFETY: likewise.
    let _ = unsafe { base.add(9 * PAGE as usize).read_volatile() };
    const GUARD_INSTALL: i32 = 102;
    // SAFETY: likewise. Where it fails there is no marker, which is to look the same.
    unsafe { libc::madvise(base.add(12 * PAGE as usize).cast(), 4096, GUARD_INSTALL) };
    (base, length)
}

fn runs(words: bool) -> (Vec<u64>, u64) {
    let (base, length) = arena(&[2, 3, 7]);
    let mut pagemap = Pagemap::open(std::process::id() as Tid).unwrap();
    pagemap.words = words;
    let start = base as u64;
    let mut pages = Vec::new();
    pagemap
        .each_written(start, start + length as u64, &mut |from, to| {
            pages.extend(
                (from..to)
                    .step_by(PAGE as usize)
                    .map(|at| (at - start) / PAGE),
            );
            true
        })
        .unwrap();
    assert!(pagemap.written(start + 2 * PAGE, start + 3 * PAGE).unwrap());
    assert!(!pagemap.written(start, start + 2 * PAGE).unwrap());
    // SAFETY: the mapping of this test alone.
    unsafe { libc::munmap(base.cast(), length) };
    (pages, pagemap.tells)
}

#[test]
fn written_pages_are_found() {
    let (pages, tells) = runs(false);
    if tells & GUARD != 0 {
        assert_eq!(pages, [2, 3, 7]);
    } else {
        // The marker cannot be told from a page.
        assert!(matches!(pages[..], [2, 3, 7] | [2, 3, 7, 12]), "{pages:?}");
    }
}

#[test]
fn older_kernels_are_asked_word_by_word() {
    let (pages, _) = runs(true);
    let told: Vec<u64> = pages
        .into_iter()
        // Who is not root cannot tell the page that was only read.
        .filter(|page| *page != 9 && *page != 12)
        .collect();
    assert_eq!(told, [2, 3, 7]);
}

/// Which pages of 6 MiB count as written, when one of those in the middle was read.
fn read_in_a_huge_page(words: bool) -> Vec<u64> {
    const HUGE: usize = 2 << 20;
    // SAFETY: a new mapping, placed by the kernel, in which huge pages are asked for and one byte is read.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = libc::mmap(
            std::ptr::null_mut(),
            4 * HUGE,
            libc::PROT_READ,
            flags,
            -1,
            0,
        );
        libc::madvise(base, 4 * HUGE, libc::MADV_HUGEPAGE);
        let start = (base as usize).next_multiple_of(HUGE);
        ((start + HUGE + 5 * PAGE as usize) as *const u8).read_volatile();
        start as u64
    };
    let mut pagemap = Pagemap::open(std::process::id() as Tid).unwrap();
    pagemap.words = words;
    let mut found = Vec::new();
    // Parts of three huge pages.
    let (from, to) = (start + 500 * PAGE, start + 1030 * PAGE);
    pagemap
        .each_written(from, to, &mut |from, to| {
            found.extend(
                (from..to)
                    .step_by(PAGE as usize)
                    .map(|at| (at - start) / PAGE),
            );
            true
        })
        .unwrap();
    found
}

/// All of it, or where huge pages are not had nothing; the small zero page, if who asks is not root.
#[test]
fn the_huge_page_of_zeroes_has_an_owner() {
    let expected: Vec<u64> = (512..1024).collect();
    let (scanned, told) = (read_in_a_huge_page(false), read_in_a_huge_page(true));
    assert!(
        scanned.is_empty() || scanned == expected || scanned == [517],
        "{scanned:?}"
    );
    assert!(told == scanned || told == [517], "{told:?}");
}

#[test]
fn a_whole_address_space_is_looked_through_soon() {
    let (base, length) = arena(&[5]);
    let mut pagemap = Pagemap::open(std::process::id() as Tid).unwrap();
    pagemap.words = true;
    let mut found = false;
    let page = base as u64 + 5 * PAGE;
    pagemap
        .each_written(0, 0x7fff_ffff_f000, &mut |from, to| {
            found |= (from..to).contains(&page);
            true
        })
        .unwrap();
    assert!(found);
    // SAFETY: the mapping of this test alone.
    unsafe { libc::munmap(base.cast(), length) };
}
