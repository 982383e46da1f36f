//! `process_madvise` with one range and with two, on this process and on the engine: how far a range may reach.

#[path = "common/running.rs"]
mod running;

use samara_mm::{AddressSpace, Call, Capabilities, Config, Layout, Limits, MmapOptions, Prot};

/// Far from everything that this process has.
const HERE: u64 = 0x1000_0000_0000;
const PAGE: u64 = 4096;
const END: u64 = 0x7fff_ffff_f000;
const MOST: u64 = 0x7fff_f000;

fn real(pidfd: i64, ranges: &[(u64, u64)], advice: i32) -> i64 {
    let flags = 0;
    // SAFETY: pairs of words are what the kernel reads; the advice changes no contents.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd,
            ranges.as_ptr(),
            ranges.len(),
            advice,
            flags,
        )
    };
    match done {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        done => done,
    }
}

fn map(place: u64, len: u64) -> Option<u64> {
    // SAFETY: a new mapping at a place where nothing is.
    let place = unsafe {
        libc::mmap(
            place as *mut libc::c_void,
            len as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    (place != libc::MAP_FAILED).then_some(place as u64)
}

#[test]
fn the_only_range_is_cut_before_it_is_looked_at() {
    let kernel = running::running();
    assert_eq!(map(HERE, 2 * PAGE), Some(HERE));
    // With page tables of five levels there is room above.
    let task_size = match map(1 << 48, PAGE) {
        Some(_) => (1 << 56) - PAGE,
        None => END,
    };
    // SAFETY: two numbers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let config = Config {
        kernel,
        task_size,
        capabilities: Capabilities {
            sys_nice: true,
            ..Capabilities::default()
        },
        ..Config::default()
    };
    let mut space = AddressSpace::new(config, Limits::UNLIMITED, Layout::default()).unwrap();
    let memory = MmapOptions::anonymous(2 * PAGE).prot(Prot::READ | Prot::WRITE);
    assert_eq!(space.mmap(&memory.fixed(HERE)), Ok(HERE));

    const WILLNEED: i32 = 3;
    let starts = [
        HERE,
        HERE + 1,
        HERE + PAGE,
        END - MOST - PAGE,
        END - MOST,
        END - MOST + PAGE,
        END,
        END + 1,
        1 << 63,
        !0xfff,
    ];
    let lengths = [
        0,
        PAGE,
        2 * PAGE,
        3 * PAGE,
        MOST,
        MOST + 1,
        1 << 40,
        END - HERE,
        END - HERE + 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ];
    for first in starts.map(|start| lengths.map(|len| (start, len))).concat() {
        for ranges in [&[first][..], &[first, (HERE, PAGE)], &[(HERE, PAGE), first]] {
            let call = Call::ProcessMadvise {
                ranges: ranges.into(),
                advice: WILLNEED,
                flags: 0,
            };
            let own = match space.perform(&call) {
                Ok(done) => done as i64,
                Err(errno) => -i64::from(errno.0),
            };
            assert_eq!(own, real(pidfd, ranges, WILLNEED), "{ranges:x?}");
        }
    }
}
