//! When `mbind` finds pages that lie elsewhere.

use samara_mm::process::Machine;
use samara_mm::walkers::PinFlags;
use samara_mm::{Capabilities, Config, Layout, Limits};

use super::*;

/// May have moved what others map, too.
fn privileged(machine: &Machine<Hosted>) -> Process<Hosted> {
    let config = Config {
        capabilities: Capabilities {
            sys_nice: true,
            ..Capabilities::default()
        },
        ..Config::default()
    };
    Process::new(machine, config, Limits::UNLIMITED, Layout::default()).unwrap()
}

/// `mbind` in this process and in the engine.
fn both(process: &Process<Hosted>, addr: u64, pages: u64, mode: u64, nodes: u64, flags: u64) {
    let len = pages * PAGE;
    // SAFETY: memory of this test, and a mask of 64 nodes.
    let real = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            addr,
            len,
            mode,
            &raw const nodes,
            65,
            flags,
        )
    };
    let real = match real {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()),
        result => result,
    };
    let engine = process.perform(&Call::Mbind {
        addr,
        len,
        mode,
        nodes,
        flags,
    });
    let engine = match engine {
        Ok(result) => result as i64,
        Err(errno) => -i64::from(errno.0),
    };
    assert_eq!(
        engine, real,
        "mode {mode:#x} nodes {nodes:#x} flags {flags} of {pages}"
    );
}

fn is_missing() -> bool {
    // SAFETY: changes nothing.
    let missing = unsafe { libc::syscall(libc::SYS_mbind, 0, 0, 0, 0, 0, 0) } != 0;
    // On several nodes, where the pages lie is chance.
    let nodes = fs::read_to_string("/sys/devices/system/node/has_memory");
    let several = nodes.is_ok_and(|nodes| nodes.trim() != "0");
    // SAFETY: asks only.
    let nobody = unsafe { libc::geteuid() } != 0;
    if missing || several || nobody {
        println!("skipped: needs mbind, one node, and root");
    }
    missing || several || nobody
}

/// Mode and nodes. Of nodes that are counted from the first allowed one, the numbers given are compared all the same.
const POLICIES: [(u64, u64); 9] = [
    (0, 0),
    (1, 0),
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 0),
    (0x4002, 2),
    (0x4002, 3),
    (0x8001, 3),
];

#[test]
fn mbind_wants_pages_on_the_nodes_that_were_named() {
    let _guard = super::without_children();
    if is_missing() {
        return;
    }
    const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let start = reserve(8);
    // Nothing is there, zeroes are, pages are, in the second of two areas, and before a hole.
    for (sort, touched, writes, hole) in [
        (PRIVATE, 0, false, None),
        (PRIVATE, 4, false, None),
        (PRIVATE, 4, true, None),
        (PRIVATE, 1, true, None),
        (PRIVATE, 1, true, Some(0)),
        (PRIVATE, 1, true, Some(1)),
        (PRIVATE, 1, true, Some(2)),
        (PRIVATE, 1, true, Some(3)),
        (PRIVATE, 2, true, Some(2)),
        (SHARED, 4, false, None),
        (SHARED, 0, false, None),
    ] {
        for ((mode, nodes), flags) in (POLICIES.iter()).flat_map(|&p| (0..8).map(move |f| (p, f))) {
            let machine = machine(64);
            let process = privileged(&machine);
            map(start, 4, 3, sort, -1);
            let call = Call::Mmap {
                addr: start,
                len: 4 * PAGE,
                prot: 3,
                flags: (sort | libc::MAP_FIXED) as u64,
                file: samara_mm::FileArg::None,
                offset: 0,
            };
            process.perform(&call).unwrap();
            for page in (0..touched).map(|page| start + page * PAGE) {
                touch(page, writes);
                if writes {
                    process.copy_in(page, b"w");
                } else {
                    process.copy_out(page, &mut [0]);
                }
            }
            if let Some(hole) = hole {
                // Two areas, and a hole behind one of them, or none.
                let advise = |addr, advice| {
                    // SAFETY: memory of this test.
                    unsafe { libc::madvise(addr as *mut _, PAGE as usize, advice) };
                    let call = Call::Madvise {
                        addr,
                        len: PAGE,
                        advice,
                    };
                    process.perform(&call).unwrap();
                };
                advise(start, libc::MADV_SEQUENTIAL);
                let addr = start + hole * PAGE;
                // SAFETY: memory of this test.
                unsafe { libc::munmap(addr as *mut _, PAGE as usize) };
                process.perform(&Call::Munmap { addr, len: PAGE }).unwrap();
            }
            both(&process, start, 4, mode, nodes, flags);
            // What has failed has changed nothing, or all.
            let real = lines("numa_maps", start, start + 4 * PAGE);
            let policy = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
            let real: Vec<_> = real.iter().map(|line| policy(line)).collect();
            let mut text = String::new();
            process.write_numa_maps(|_| 0, &mut text).unwrap();
            assert_eq!(text.lines().map(policy).collect::<Vec<_>>(), real);
        }
    }
}

#[test]
fn mbind_moves_no_page_that_somebody_holds() {
    let _guard = super::without_children();
    if is_missing() {
        return;
    }
    let start = reserve(8);
    for flags in 0..8 {
        for (mode, nodes) in POLICIES {
            let machine = machine(64);
            let process = privileged(&machine);
            map(start, 4, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
            process.perform(&anonymous(start, 4, 3)).unwrap();
            touch(start, true);
            process.copy_in(start, b"w");
            let mut ends = [0; 2];
            let part = libc::iovec {
                iov_base: start as *mut _,
                iov_len: PAGE as usize,
            };
            // SAFETY: a pipe of this test's, with a reference on a page of its memory.
            unsafe {
                assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
                assert_eq!(
                    libc::vmsplice(ends[1], &raw const part, 1, 0),
                    PAGE as isize
                );
            }
            let held = process.pin(start, 1, PinFlags::GET).unwrap();
            both(&process, start, 4, mode, nodes, flags);
            drop(held);
            // SAFETY: its ends.
            unsafe {
                libc::close(ends[0]);
                libc::close(ends[1]);
            }
        }
    }
}
