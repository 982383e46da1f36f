//! `process_vm_readv` and `process_vm_writev`, compared with the running kernel's, on one layout.

use samara_mm::observe::IoVec;
use samara_mm::process::Process;
use samara_mm::{Call, Errno};

use crate::world::{Hosted, PAGE, anonymous, machine, process};

/// Accesses of pages from some address on; what is not there is a hole.
const LAYOUT: [Option<u64>; 10] = [
    Some(3),
    Some(3),
    Some(1),
    None,
    Some(3),
    Some(0),
    Some(2),
    Some(3),
    None,
    Some(3),
];
const PAGES: u64 = LAYOUT.len() as u64;

fn real_area() -> u64 {
    let len = (2 * PAGES * PAGE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, 3, flags, -1, 0) } as u64;
    assert_ne!(start, u64::MAX);
    fill(start, |at, byte| {
        // SAFETY: just mapped.
        unsafe { (at as *mut u8).write(byte) }
    });
    for half in [start, start + PAGES * PAGE] {
        for (at, prot) in (half..).step_by(PAGE as usize).zip(LAYOUT) {
            // SAFETY: memory of this test alone.
            let done = unsafe {
                match prot {
                    None => libc::munmap(at as *mut _, PAGE as usize),
                    Some(prot) => libc::mprotect(at as *mut _, PAGE as usize, prot as i32),
                }
            };
            assert_eq!(done, 0);
        }
    }
    start
}

fn fill(start: u64, mut set: impl FnMut(u64, u8)) {
    for at in 0..2 * PAGES * PAGE {
        set(start + at, (at * 7 + (at >> 12) * 31) as u8);
    }
}

fn engine(process: &Process<Hosted>, start: u64) {
    process.perform(&anonymous(start, 2 * PAGES, 3)).unwrap();
    let mut bytes = Vec::new();
    fill(start, |_, byte| bytes.push(byte));
    assert_eq!(process.copy_in(start, &bytes), bytes.len());
    for half in [start, start + PAGES * PAGE] {
        for (addr, prot) in (half..).step_by(PAGE as usize).zip(LAYOUT) {
            let call = match prot {
                None => Call::Munmap { addr, len: PAGE },
                Some(prot) => Call::Mprotect {
                    addr,
                    len: PAGE,
                    prot,
                    pkey: -1,
                },
            };
            process.perform(&call).unwrap();
        }
    }
}

/// Returns the real call's result. The local side is the process itself, too.
fn real(local: &[IoVec], remote: &[IoVec], flags: u64, write: bool) -> Result<usize, i32> {
    let convert = |list: &[IoVec]| -> Vec<libc::iovec> {
        let one = |range: &IoVec| libc::iovec {
            iov_base: range.base as *mut _,
            iov_len: range.len as usize,
        };
        list.iter().map(one).collect()
    };
    let (local, remote) = (convert(local), convert(remote));
    let call = if write {
        libc::process_vm_writev
    } else {
        libc::process_vm_readv
    };
    // SAFETY: what is written lies in the memory of this test.
    let result = unsafe {
        call(
            std::process::id() as i32,
            local.as_ptr(),
            local.len() as u64,
            remote.as_ptr(),
            remote.len() as u64,
            flags,
        )
    };
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap())
}

#[test]
fn as_many_bytes_are_copied_as_by_the_kernel() {
    let start = real_area();
    let machine = machine(256);
    let process = process(&machine);
    engine(&process, start);
    let mut seed = 0x5eed_u64;
    let mut random = move |below: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let allowed = std::process::id();
    let probe = [IoVec {
        base: start,
        len: 1,
    }];
    if real(&probe, &probe, 0, false) != Ok(1) {
        println!("skipped: process_vm_readv is not allowed here ({allowed})");
        return;
    }
    let (mut full, mut partial, mut none) = (0, 0, 0);
    for round in 0..4000 {
        let mut list = |half: u64| -> Vec<IoVec> {
            let base = start + half * PAGES * PAGE;
            (0..random(5))
                .map(|_| IoVec {
                    base: base + random(PAGES * PAGE),
                    len: random(if round % 2 == 0 { 300 } else { 3 * PAGE }),
                })
                // Within its half, so that what is read is not what is being written.
                .map(|range| IoVec {
                    len: range.len.min(base + PAGES * PAGE - range.base),
                    ..range
                })
                .collect()
        };
        let (local, remote) = (list(0), list(1));
        let write = round % 3 == 0;
        let flags = u64::from(round % 97 == 0);
        let wanted = real(&local, &remote, flags, write);
        let found = if write {
            process.vm_writev(&local, &process, &remote, flags)
        } else {
            process.vm_readv(&local, &process, &remote, flags)
        };
        let found = found.map_err(|error| error.0);
        assert_eq!(
            found, wanted,
            "{round}: {local:x?} {remote:x?} write {write}"
        );
        let all = |list: &[IoVec]| list.iter().map(|range| range.len).sum::<u64>();
        match wanted {
            Ok(bytes) if bytes as u64 == all(&local).min(all(&remote)) => full += 1,
            Ok(_) => partial += 1,
            Err(_) => none += 1,
        }
        // What can be read is the same.
        if round % 50 == 0 {
            compare(&process, start);
        }
    }
    assert!(
        full > 100 && partial > 100 && none > 100,
        "{full} {partial} {none}"
    );
    compare(&process, start);
    let many = vec![probe[0]; 1025];
    assert_eq!(
        process.vm_readv(&many, &process, &probe, 0),
        Err(Errno::EINVAL)
    );
    assert_eq!(real(&many, &probe, 0, false), Err(libc::EINVAL));
    let long = [IoVec {
        base: start,
        len: 1 << 63,
    }];
    assert_eq!(
        process.vm_readv(&long, &process, &probe, 0),
        Err(Errno::EINVAL)
    );
    assert_eq!(real(&long, &probe, 0, false), Err(libc::EINVAL));
    machine.check().unwrap();
}

fn compare(process: &Process<Hosted>, start: u64) {
    for half in [start, start + PAGES * PAGE] {
        for (at, prot) in (half..).step_by(PAGE as usize).zip(LAYOUT) {
            if prot.is_none_or(|prot| prot & 1 == 0) {
                continue;
            }
            let mut bytes = vec![0; PAGE as usize];
            assert_eq!(process.copy_out(at, &mut bytes), bytes.len());
            // SAFETY: readable memory of this test.
            let real = unsafe { std::slice::from_raw_parts(at as *const u8, bytes.len()) };
            assert!(bytes == real, "{at:#x}");
        }
    }
}
