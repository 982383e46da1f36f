//! Bounds of heap, data and stack as `PR_SET_MM` may have left them, or a recording that somebody has damaged: `Call::SetMm` is not checked, so every
//! call copes with any.

use samara_mm::{AddressSpace, Call, Config, FileArg, Layout, Limits};

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
