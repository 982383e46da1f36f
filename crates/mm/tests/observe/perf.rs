//! Records of mappings compared with those that the kernel writes into a ring for `perf`.

use std::fs::File as Disk;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use samara_mm::observe::MmapEvents;
use samara_mm::{AddressSpace, Call, Config, Counted, File, FileArg, FileId, Layout, Limits};

use super::{PAGE, Random};
use crate::running::running;

/// Pages of the ring's data.
const RING: usize = 16;
const PAGES: u64 = 48;

/// The kernel's records of this thread's mappings.
struct Ring {
    _event: OwnedFd,
    start: *mut u8,
}

impl Ring {
    /// None where the kernel has no such events, or not for this user.
    fn new() -> Option<Self> {
        // `struct perf_event_attr`, 128 bytes: a dummy of software that tells of mappings of code and of data in the newer form.
        let mut attributes = [0u64; 16];
        attributes[0] = 1 | 128 << 32;
        attributes[1] = 9;
        // exclude_kernel, exclude_hv, mmap, mmap_data, mmap2.
        attributes[5] = 1 << 5 | 1 << 6 | 1 << 8 | 1 << 17 | 1 << 23;
        // SAFETY: the structure outlives the call.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
        if fd < 0 {
            return None;
        }
        // SAFETY: a new descriptor, and new memory.
        unsafe {
            let event = OwnedFd::from_raw_fd(fd as i32);
            let len = (1 + RING) * PAGE as usize;
            let (prot, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let start = libc::mmap(std::ptr::null_mut(), len, prot, shared, fd as i32, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let ring = Ring {
                _event: event,
                start: start.cast(),
            };
            ring.take();
            Some(ring)
        }
    }

    /// All records since the last time.
    fn take(&self) -> Vec<Vec<u8>> {
        let len = RING * PAGE as usize;
        // SAFETY: the ring's first page, where the kernel keeps both numbers; the data, of which it leaves alone what was not yet taken.
        unsafe {
            let word = |at: usize| &*self.start.add(at).cast::<AtomicU64>();
            let (head, tail) = (word(1024), word(1032));
            let end = head.load(Ordering::Acquire);
            let data = std::slice::from_raw_parts(self.start.add(PAGE as usize), len);
            let mut at = tail.load(Ordering::Relaxed);
            let mut records = Vec::new();
            while at < end {
                let byte = |i: u64| data[(at + i) as usize % len];
                let size = u64::from(u16::from_le_bytes([byte(6), byte(7)]));
                records.push((0..size).map(byte).collect());
                at += size;
            }
            fence(Ordering::SeqCst);
            tail.store(end, Ordering::Release);
            records
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.start.cast(), (1 + RING) * PAGE as usize) };
    }
}

/// A free place, far from all places that programs use: gaps are filled from above.
const BASE: u64 = 0x20_0000_0000;

/// The same call here and in the kernel.
fn perform(call: &Call, fd: i32) {
    // SAFETY: within the reserved range.
    unsafe {
        match *call {
            Call::Mmap {
                addr,
                len,
                prot,
                flags,
                offset,
                ..
            } => {
                let fd = if flags & 0x20 == 0 { fd } else { -1 };
                let (at, len) = (addr as *mut libc::c_void, len as usize);
                libc::mmap(at, len, prot as i32, flags as i32, fd, offset as i64);
            }
            Call::Munmap { addr, len } => {
                libc::munmap(addr as *mut _, len as usize);
            }
            Call::Mprotect {
                addr, len, prot, ..
            } => {
                libc::mprotect(addr as *mut _, len as usize, prot as i32);
            }
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => {
                let (old, new) = (old_addr as *mut _, new_addr as *mut libc::c_void);
                let (old_len, new_len) = (old_len as usize, new_len as usize);
                libc::mremap(old, old_len, new_len, flags as i32, new);
            }
            _ => unreachable!(),
        }
    }
}

/// Without what the engine cannot know: the generation of the inode, and the inode of shared memory.
fn comparable(mut record: Vec<u8>) -> Vec<u8> {
    record[56..64].fill(0);
    if record[72..].starts_with(b"/dev/zero (deleted)") {
        record[40..56].fill(0);
    }
    record
}

#[test]
fn the_kernel_records_the_same() {
    let Some(ring) = Ring::new() else {
        println!("skipped: no events of mappings for this user here");
        return;
    };
    let path = std::env::temp_dir().join(format!("samara-perf-{}", std::process::id()));
    let disk = Disk::create_new(&path).unwrap();
    disk.set_len(64 * PAGE).unwrap();
    let about = disk.metadata().unwrap();
    let id = FileId {
        major: libc::major(about.dev()),
        minor: libc::minor(about.dev()),
        inode: about.ino(),
    };
    let file = Counted::try_new(File::new(id, path.to_str().unwrap().into())).unwrap();
    // SAFETY: asks only.
    let (pid, tid) = unsafe { (libc::getpid() as u32, libc::gettid() as u32) };
    let kernel = running();
    let mut random = Random(7);
    let mut compared = 0;
    for history in 0..60 {
        let config = Config {
            kernel,
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
        for step in 0..40 {
            let addr = BASE + random.below(PAGES - 8) * PAGE;
            let len = (1 + random.below(8)) * PAGE;
            let prot = [0, 1, 3, 5, 7][random.below(5) as usize];
            let call = match random.below(8) {
                0..4 => {
                    let shared = random.below(4) == 0;
                    let anonymous = random.below(3) > 0;
                    Call::Mmap {
                        addr,
                        len,
                        prot,
                        flags: 0x10 | if shared { 1 } else { 2 } | if anonymous { 0x20 } else { 0 },
                        file: if anonymous {
                            FileArg::None
                        } else {
                            FileArg::File(file.clone())
                        },
                        offset: if anonymous { 0 } else { random.below(4) * PAGE },
                    }
                }
                4..6 => Call::Mprotect {
                    addr,
                    len,
                    prot,
                    pkey: -1,
                },
                6 => Call::Munmap { addr, len },
                _ => Call::Mremap {
                    old_addr: addr,
                    old_len: PAGE,
                    new_len: PAGE * (1 + random.below(2)),
                    flags: 3,
                    new_addr: BASE + random.below(PAGES - 2) * PAGE,
                },
            };
            if matches!(&call, Call::Mremap { old_addr, new_addr, .. } if new_addr.abs_diff(*old_addr) < 2 * PAGE)
            {
                continue;
            }
            let mut events = MmapEvents::new(&space, &call);
            let _ = space.perform_with(&call, &mut events);
            perform(&call, disk.as_raw_fd());
            let real: Vec<_> = ring.take().into_iter().map(comparable).collect();
            let own: Vec<_> = events
                .records(&space)
                .map(|record| {
                    let mut bytes = Vec::new();
                    record.encode(pid, tid, &mut bytes).unwrap();
                    comparable(bytes)
                })
                .collect();
            assert_eq!(own, real, "history {history}, step {step}: {call:x?}");
            compared += own.len();
        }
        // SAFETY: what this test has mapped.
        unsafe { libc::munmap(BASE as *mut _, (PAGES * PAGE) as usize) };
        ring.take();
    }
    std::fs::remove_file(&path).unwrap();
    assert!(compared > 1000, "{compared}");
}

/// Stacks grow by faults of the kernel on behalf of a `read`, which fails where they cannot.
#[test]
fn the_kernel_records_stacks_that_grow() {
    /// Apart from the other test's, which may run at the same time.
    const TOP: u64 = 0x30_0000_0000;
    let Some(ring) = Ring::new() else {
        println!("skipped: no events of mappings for this user here");
        return;
    };
    let zeroes = Disk::open("/dev/zero").unwrap();
    // SAFETY: asks only.
    let (pid, tid) = unsafe { (libc::getpid() as u32, libc::gettid() as u32) };
    let mut random = Random(11);
    let (mut grown, mut refused) = (0, 0);
    for history in 0..40 {
        let (config, layout) = (Config::default(), Layout::default());
        let mut space = AddressSpace::new(config, Limits::UNLIMITED, layout).unwrap();
        // A stack that may be locked, and below it, not far, something that may be accessed or not.
        let locked = random.below(4) == 0;
        let below = TOP - (300 + random.below(300)) * PAGE;
        let prot = random.below(2);
        let mut reserve = |addr: u64, len: u64, prot: u64, flags: u64| {
            let call = Call::Mmap {
                addr,
                len,
                prot,
                flags: 0x32 | flags,
                file: FileArg::None,
                offset: 0,
            };
            perform(&call, -1);
            space.perform(&call).unwrap();
        };
        reserve(below, PAGE, prot, 0);
        reserve(TOP, 4 * PAGE, 3, 0x100 | if locked { 0x2000 } else { 0 });
        ring.take();
        let mut at = TOP;
        for step in 0..12 {
            at -= 1 + random.below(60 * PAGE);
            let mut events = MmapEvents::of_fault(&space);
            let ours = space.fault_with(at, true, &mut events).is_ok();
            // SAFETY: a byte of memory that no other code uses, or nothing.
            let real = unsafe { libc::read(zeroes.as_raw_fd(), at as *mut _, 1) };
            assert_eq!(ours, real == 1, "history {history}, step {step}: {at:x}");
            let real = ring.take();
            let mut own: Vec<Vec<u8>> = Vec::new();
            for record in events.records(&space) {
                let mut bytes = Vec::new();
                record.encode(pid, tid, &mut bytes).unwrap();
                own.push(bytes);
            }
            assert_eq!(own, real, "history {history}, step {step}: {at:x}");
            grown += own.len();
            if !ours {
                refused += 1;
                break;
            }
        }
        // SAFETY: what this test has mapped.
        unsafe { libc::munmap(below as *mut _, (TOP + 4 * PAGE - below) as usize) };
        ring.take();
    }
    assert!(grown > 100 && refused > 5, "{grown}, {refused}");
}
