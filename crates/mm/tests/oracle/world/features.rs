//! The features of the running kernel, found by asking it.

use std::collections::HashSet;
use std::sync::OnceLock;

use samara_linux::Tid;
use samara_linux::smaps::Smaps;
use samara_mm::{AddressSpace, Backing, Config, VmFlags};

use crate::generate::PAGE;
use crate::kernel::look::raw;
use crate::kernel::map_new;

/// Returns `true` if the kernel remembers where guard markers were (since about Linux 6.18), and
/// shows it.
pub(super) fn shows_guarded() -> bool {
    const GUARD_INSTALL: u64 = 102;
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| shows(VmFlags::GUARDED, libc::SYS_madvise, GUARD_INSTALL))
}

/// Returns `true` if the kernel shows which pages are locked when they are faulted in. (It has the
/// feature for longer.)
pub(super) fn shows_lock_on_fault() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    let on_fault = u64::from(libc::MLOCK_ONFAULT);
    *SHOWS.get_or_init(|| shows(VmFlags::LOCKONFAULT, libc::SYS_mlock2, on_fault))
}

/// Returns `true` if smaps shows the flag for a page on which the call was made.
fn shows(flag: VmFlags, call: i64, argument: u64) -> bool {
    let page = map_new(libc::MAP_PRIVATE, PAGE as usize) as u64;
    raw(call, [page, PAGE, argument, 0, 0, 0]);
    let smaps = Smaps::of(std::process::id() as Tid).unwrap();
    raw(libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0]);
    let mut told = smaps.told.iter();
    told.any(|&(flags, _)| VmFlags::from_smaps(smaps.letters(flags)).contains(flag))
}

/// With page tables of five levels there is room above 47 bits: a page is mapped there.
pub(super) fn end_of_user_space() -> u64 {
    let private_anonymous = 0x22;
    let hint = [1 << 48, PAGE, 0, private_anonymous, u64::MAX, 0];
    let page = raw(libc::SYS_mmap, hint);
    raw(libc::SYS_munmap, [page as u64, PAGE, 0, 0, 0, 0]);
    if page >= 1 << 47 {
        (1 << 56) - PAGE
    } else {
        Config::default().task_size
    }
}

/// Which pages of the areas that the kernel installed cannot be read, asked of the kernel: clocks of machines that this one is not,
/// and those of a time namespace in which the process is not.
pub(super) fn unbacked(base: &AddressSpace, special: (u64, u64)) -> HashSet<(Box<str>, u64)> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors for the array, of which both are closed below.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let readable = |addr: u64| {
        let written = raw(libc::SYS_write, [ends[1] as u64, addr, 1, 0, 0, 0]);
        let mut byte = 0u8;
        if written == 1 {
            // SAFETY: one byte lies in the pipe, and there is room for it.
            unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
        }
        written == 1
    };
    let mut found = HashSet::new();
    for area in base.areas() {
        if let Backing::Special(name) = &area.vma.backing
            && (special.0..special.1).contains(&area.start)
        {
            let pages = (area.start..area.end).step_by(PAGE as usize);
            let refused = pages.filter(|page| !readable(*page));
            found.extend(refused.map(|page| (name.name().into(), (page - area.start) / PAGE)));
        }
    }
    for end in ends {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(end) };
    }
    found
}
