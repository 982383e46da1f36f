//! Growth of a VMA that a driver manages, compared with that of a TCP socket in this process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use samara_mm::{
    AddressSpace, Call, Config, Counted, DriverFlags, Errno, File, FileArg, FileId, FileKind,
    KernelVersion, Layout, Limits, VmFlags,
};

/// Far from everything that this process has.
const HERE: u64 = 0x1000_0000_0000;
const PAGE: u64 = 4096;
const READ: u64 = 1;
const SHARED_FIXED: u64 = 0x11;
const ANONYMOUS_FIXED: u64 = 0x32;
const MAY_MOVE: u64 = 1;

fn real(number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the calls concern only what this test has mapped.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        done => done,
    }
}

/// A socket whose mappings hold pages that its driver inserts: `VM_MIXEDMAP`.
fn socket() -> Counted<File> {
    let id = FileId {
        major: 0,
        minor: 9,
        inode: 1,
    };
    let file = File {
        kind: FileKind::Device,
        driver: DriverFlags {
            adds: VmFlags::MIXEDMAP,
            removes: VmFlags::MAYWRITE | VmFlags::MAYEXEC,
        },
        ..File::new(id, "socket:[1]".into())
    };
    Counted::try_new(file).unwrap()
}

#[test]
fn what_joins_nothing_does_not_grow_in_place() {
    // SAFETY: three numbers.
    let real_socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    assert!(real_socket >= 0);
    for (number, (blocked, flags, part)) in [
        (false, 0, 0),
        (false, MAY_MOVE, 0),
        (false, MAY_MOVE, 1),
        (true, 0, 0),
        (true, MAY_MOVE, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let here = HERE + number as u64 * 64 * PAGE;
        let mut space =
            AddressSpace::new(Config::default(), Limits::UNLIMITED, Layout::default()).unwrap();
        let len = 3 * PAGE;
        space
            .perform(&Call::Mmap {
                addr: here,
                len,
                prot: READ,
                flags: SHARED_FIXED,
                file: FileArg::File(socket()),
                offset: 0,
            })
            .unwrap();
        let own = [here, len, READ, SHARED_FIXED, real_socket as u64, 0];
        assert_eq!(real(libc::SYS_mmap, own), here as i64);
        if blocked {
            space
                .perform(&Call::Mmap {
                    addr: here + len,
                    len: PAGE,
                    prot: READ,
                    flags: ANONYMOUS_FIXED,
                    file: FileArg::None,
                    offset: 0,
                })
                .unwrap();
            let own = [here + len, PAGE, READ, ANONYMOUS_FIXED, u64::MAX, 0];
            assert_eq!(real(libc::SYS_mmap, own), (here + len) as i64);
        }
        let (old_addr, old_len, new_len) = (here, len - part * PAGE, 8 * PAGE);
        let engine = space.perform(&Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr: 0,
        });
        let kernel = real(libc::SYS_mremap, [old_addr, old_len, new_len, flags, 0, 0]);
        // Where it goes to depends on what else there is.
        let engine = engine.map_or_else(|errno| -i64::from(errno.0), |_| 0);
        assert_eq!(engine, kernel.min(0), "{blocked} {flags} {part}");
    }
}

#[test]
fn rings_of_packet_sockets_grow_in_place_up_to_a_version() {
    for (kind, minor, grown) in [
        (FileKind::PacketSocket, 1, Ok(HERE)),
        (FileKind::PacketSocket, 4, Err(Errno::ENOMEM)),
        (FileKind::Device, 1, Err(Errno::ENOMEM)),
    ] {
        let config = Config {
            kernel: KernelVersion::new(6, minor),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::UNLIMITED, Layout::default()).unwrap();
        let ring = Counted::try_new(File {
            kind,
            ..(*socket()).clone()
        });
        space.perform(&map(HERE, ring.unwrap())).unwrap();
        let done = space.perform(&Call::Mremap {
            old_addr: HERE,
            old_len: PAGE,
            new_len: 2 * PAGE,
            flags: 0,
            new_addr: 0,
        });
        assert_eq!(done, grown, "{kind:?} 6.{minor}");
        space.check().unwrap();
    }
}

/// Locking and unlocking have no effect on a VMA that its driver has locked.
#[test]
fn secrets_are_neither_locked_nor_unlocked() {
    for adds in [VmFlags::empty(), VmFlags::LOCKED] {
        let secret = Counted::try_new(File {
            kind: FileKind::Secret,
            driver: DriverFlags {
                adds,
                removes: VmFlags::empty(),
            },
            ..(*socket()).clone()
        });
        let mut space =
            AddressSpace::new(Config::default(), Limits::UNLIMITED, Layout::default()).unwrap();
        space.perform(&map(HERE, secret.unwrap())).unwrap();
        for call in [
            Call::Munlock {
                addr: HERE,
                len: PAGE,
            },
            Call::Mlock {
                addr: HERE,
                len: PAGE,
                flags: 0,
            },
            Call::Mlockall { flags: 1 },
            Call::Munlockall,
        ] {
            assert_eq!(space.perform(&call), Ok(0), "{call:?}");
            let flags = space.lookup(HERE).unwrap().vma.flags;
            assert_eq!(flags & VmFlags::LOCKED_MASK, adds, "{call:?}");
        }
    }
}

/// The parts before such a VMA have moved when the call fails.
#[test]
fn what_chooses_its_place_itself_moves_alone() {
    for kind in [FileKind::Placed, FileKind::PlacedDevice] {
        let config = Config {
            kernel: KernelVersion::new(6, 18),
            ..Config::default()
        };
        let mut space = AddressSpace::new(config, Limits::UNLIMITED, Layout::default()).unwrap();
        let anonymous = Call::Mmap {
            addr: HERE,
            len: PAGE,
            prot: READ,
            flags: ANONYMOUS_FIXED,
            file: FileArg::None,
            offset: 0,
        };
        let file = Counted::try_new(File {
            kind,
            ..(*socket()).clone()
        });
        let moved = |len: u64, addr: u64| Call::Mremap {
            old_addr: addr,
            old_len: len,
            new_len: len,
            flags: MAY_MOVE | 2,
            new_addr: addr + 16 * PAGE,
        };
        space.perform(&anonymous).unwrap();
        space.perform(&map(HERE + 2 * PAGE, file.unwrap())).unwrap();
        let together = space.perform(&moved(3 * PAGE, HERE));
        assert_eq!(together, Err(Errno::EFAULT), "{kind:?}");
        assert!(space.lookup(HERE).is_none());
        assert!(space.lookup(HERE + 16 * PAGE).is_some());
        let alone = space.perform(&moved(PAGE, HERE + 2 * PAGE));
        assert_eq!(alone, Ok(HERE + 18 * PAGE), "{kind:?}");
        space.check().unwrap();
    }
}

/// The first page of a file, at a fixed place.
fn map(addr: u64, file: Counted<File>) -> Call {
    Call::Mmap {
        addr,
        len: PAGE,
        prot: READ,
        flags: SHARED_FIXED,
        file: FileArg::File(file),
        offset: 0,
    }
}
