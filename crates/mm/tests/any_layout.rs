//! Bounds of heap, data and stack. Impossible ones are refused, where an address space is made and
//! by `PR_SET_MM`. Calls accept all others, as a program may have set them, or a damaged recording
//! may name them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use samara_mm::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};

#[test]
fn calls_cope_with_any_bounds() {
    let mut x = 88_172_645_463_325_252u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut any = move || {
        let number = random();
        match number >> 60 {
            0 => 0,
            1 => number % 0x1001,
            2 => 0x7fff_ffff_f000,
            3 => 0x7fff_ffff_ffff,
            4..7 => u64::MAX - number % 0x2001,
            7 => 1 << 63,
            8..11 => 0x5555_0000_0000 + number % 4 * 0x1800,
            shift => number >> (shift * 2),
        }
    };
    for history in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
        let mut space = AddressSpace::new(config, limits, layout).unwrap();
        for _ in 0..6 {
            let call = match any() % 5 {
                0 | 1 => Call::SetMm {
                    start_brk: any(),
                    brk: any(),
                    data_size: any(),
                    stack_top: any(),
                },
                2 | 3 => Call::Brk { addr: any() },
                _ => Call::Mmap {
                    addr: any() & !0xfff,
                    len: 0x5000,
                    prot: 3,
                    flags: 0x22,
                    file: FileArg::None,
                    offset: 0,
                },
            };
            // It may fail.
            let _ = space.perform(&call);
            space
                .check()
                .unwrap_or_else(|broken| panic!("history {history}, {call:x?}: {broken}"));
            assert_eq!(space.maps().count(), space.area_count());
        }
    }
}

#[test]
fn layouts_that_make_no_sense_are_refused() {
    const END: u64 = 0x7fff_ffff_f000;
    let new = |layout| AddressSpace::new(Config::default(), Limits::default(), layout).map(|_| ());
    let heap = |start_brk, brk| Layout {
        start_brk,
        brk,
        ..Layout::default()
    };
    let usual = Layout::default();
    let wrong = [
        // A heap below its start, at or above the end, and one whose end would be 0 in whole pages.
        heap(0x5555_0000_1000, 0x5555_0000_0fff),
        heap(0x5555_0000_1000, 0),
        heap(END, END),
        heap(END + 0x1000, END + 0x1000),
        heap(0x5555_0000_1000, END + 1),
        heap(0x5555_0000_1000, u64::MAX),
        heap(0, u64::MAX - 1),
        Layout {
            legacy_base: END + 0x1000,
            ..usual
        },
        Layout {
            legacy_base: 0x2aaa_aaaa_b001,
            ..usual
        },
        Layout {
            mmap_base: END + 0x1000,
            ..usual
        },
        Layout {
            stack_top: END + 1,
            ..usual
        },
        Layout {
            data_size: END + 1,
            ..usual
        },
    ];
    for layout in wrong {
        assert_eq!(new(layout), Err(Errno::EINVAL), "{layout:x?}");
    }
    let fine = [
        usual,
        heap(0, 0),
        heap(0x1_0000, END),
        heap(END - 1, END - 1),
        Layout {
            legacy_base: END,
            mmap_base: END,
            stack_top: END,
            ..usual
        },
        Layout {
            stack_top: 0,
            ..usual
        },
    ];
    for layout in fine {
        assert_eq!(new(layout), Ok(()), "{layout:x?}");
    }
}

#[test]
fn a_break_beyond_all_addresses_is_no_heap() {
    // Rounded up to a page, it is 0, as the break of a space without a heap is.
    for start_brk in [0, 0x5555_5555_9000] {
        let brk = start_brk;
        let layout = Layout {
            start_brk,
            brk,
            ..Layout::default()
        };
        let mut space = AddressSpace::new(Config::default(), Limits::default(), layout).unwrap();
        assert_eq!(space.brk(u64::MAX - 1), brk);
        assert_eq!(space.layout().brk, brk);
    }
}

/// `struct prctl_mm_map` of `PR_SET_MM(2const)`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Bounds {
    code: [u64; 2],
    data: [u64; 2],
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    auxv: *mut u64,
    auxv_size: u32,
    exe: i32,
}

/// The kernel's answer in a child, of which nothing is left.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn ask(bounds: &Bounds, data_limit: u64) -> Result<u64, Errno> {
    const PR_SET_MM_MAP: i32 = 14;
    // SAFETY: the child makes system calls, and ends.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let limit = libc::rlimit {
                rlim_cur: data_limit,
                rlim_max: data_limit,
            };
            libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
            let size = size_of::<Bounds>();
            let set = libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP, &raw const *bounds, size, 0);
            libc::_exit(if set == 0 {
                0
            } else {
                *libc::__errno_location()
            });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        match libc::WEXITSTATUS(status) {
            0 => Ok(0),
            error => Err(Errno(error)),
        }
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[cfg_attr(miri, ignore = "asks the kernel")]
fn bounds_are_refused_as_the_kernel_does() {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> = (stat[stat.rfind(')').unwrap() + 2..].split(' '))
        .map(|field| field.trim().parse().unwrap_or(0))
        .collect();
    // The third field is the first here.
    let field = |number: usize| fields[number - 3];
    // SAFETY: no argument moves it.
    let brk = unsafe { libc::sbrk(0) } as u64;
    let now = Bounds {
        code: [field(26), field(27)],
        data: [field(45), field(46)],
        start_brk: field(47),
        brk,
        start_stack: field(28),
        arguments: [field(48), field(49)],
        environment: [field(50), field(51)],
        auxv: std::ptr::null_mut(),
        auxv_size: 0,
        exe: -1,
    };
    if ask(&now, u64::MAX).is_err() {
        println!("this kernel does not let this process set its bounds: nothing to compare");
        return;
    }
    let least = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap();
    let mut config = Config::default();
    config.mmap_min_addr = config.mmap_min_addr.max(least.trim().parse().unwrap());
    let (low, end) = (config.mmap_min_addr, config.task_size);
    let mut compared = 0;
    let mut compare = |bounds: Bounds, data_limit: u64| {
        let limits = Limits {
            data: data_limit,
            ..Limits::default()
        };
        let mut space = AddressSpace::new(config.clone(), limits, Layout::default()).unwrap();
        let call = Call::SetMm {
            start_brk: bounds.start_brk,
            brk: bounds.brk,
            data_size: bounds.data[1] - bounds.data[0],
            stack_top: bounds.start_stack,
        };
        let answer = space.perform(&call);
        assert_eq!(
            answer,
            ask(&bounds, data_limit),
            "{bounds:x?}, limit {data_limit:#x}"
        );
        compared += 1;
    };
    let places = [
        0,
        low - 1,
        low,
        now.start_brk,
        brk,
        brk + 1,
        end - 1,
        end,
        u64::MAX,
    ];
    for start_brk in places {
        for brk in places {
            compare(
                Bounds {
                    start_brk,
                    brk,
                    ..now
                },
                u64::MAX,
            );
        }
    }
    for start_stack in places {
        compare(Bounds { start_stack, ..now }, u64::MAX);
    }
    let data = now.data[1] - now.data[0];
    for (heap, limit) in [
        (0x8000, 0x8000),
        (0x7000, 0x7000 + data),
        (0x7000, 0x6fff + data),
    ] {
        compare(
            Bounds {
                brk: now.start_brk + heap,
                ..now
            },
            limit,
        );
    }
    assert_eq!(compared, 93);
}
