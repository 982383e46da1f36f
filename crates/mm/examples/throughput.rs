//! The number of calls a second that the engine performs: random mmap, munmap, mprotect and faults
//! in 256 pages.
//!
//! `cargo run --release -p samara-mm --example throughput [CALLS [shared]]`; with `shared`, in the
//! mode for concurrent look-ups.

use std::time::Instant;

use samara_mm::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};

const BASE: u64 = 0x1_0000_0000;
const PAGES: u64 = 256;
const CALLS: u64 = 4_000_000;

fn main() -> Result<(), Errno> {
    let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    let mut state = 1u64;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    };
    let _shared = (std::env::args().nth(2).as_deref() == Some("shared")).then(|| space.share());
    let calls = std::env::args().nth(1);
    let calls = calls.and_then(|n| n.parse().ok()).unwrap_or(CALLS);
    let began = Instant::now();
    let mut failed = 0u64;
    for _ in 0..calls {
        let addr = BASE + below(PAGES) * 4096;
        let len = (1 + below(8)) * 4096;
        let call = match below(10) {
            0..4 => Call::Mmap {
                addr,
                len,
                prot: 3,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            },
            4..6 => Call::Munmap { addr, len },
            6..9 => Call::Mprotect {
                addr,
                len,
                prot: 1 + 2 * below(2),
                pkey: -1,
            },
            _ => {
                let _ = space.fault(addr, true);
                continue;
            }
        };
        failed += u64::from(space.perform(&call).is_err());
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{calls} calls in {seconds:.2} s: {:.2} million a second; {failed} failed, {} areas",
        calls as f64 / seconds / 1e6,
        space.area_count()
    );
    Ok(())
}
