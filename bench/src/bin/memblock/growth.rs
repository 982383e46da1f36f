//! From an empty array to a million regions, with every doubling on the way.

use std::time::Instant;

use samara_bench::{Options, Report};
use samara_memblock::Region;

use crate::bed::{LEN, STEP, boot, leak};

const LARGEST: usize = 1_000_000;
/// Above the memory that holds the arrays, so that additions are sequential.
const FAR: u64 = 1 << 50;

pub fn run(options: &Options) -> Report {
    let mut report = Report::new(
        "memblock: sequential additions from nothing, arrays doubling on the way",
        "ns an addition, on average",
    );
    // Three arrays of the largest size: the one in use, the one before, and pages around them.
    let bytes = 4 * (LARGEST * 2) * size_of::<Region>();
    let arena = leak(bytes);
    let mut n = 100;
    while n <= LARGEST {
        let name = format!("build {n}");
        if options.wants(&name) {
            let mut figures = vec![Vec::new(), Vec::new()];
            let repeat = (100_000 / n).max(1);
            for run in 0..=options.runs {
                let (mut all, mut growing) = (0.0, 0.0);
                for _ in 0..repeat {
                    let (a, g) = build(arena.as_ptr() as u64, bytes as u64, n);
                    all += a;
                    growing += g;
                }
                if run > 0 {
                    figures[0].push(all / (n * repeat) as f64);
                    figures[1].push(growing / (n * repeat) as f64);
                }
            }
            report.add(&name, &["all", "of which calls that grew"], &figures);
        }
        n *= 10;
    }
    report
}

/// Nanoseconds in all, and in calls that grew an array.
fn build(arena: u64, bytes: u64, n: usize) -> (f64, f64) {
    let mut m = boot_once();
    m.clear();
    m.allow_resize();
    m.set_current_limit(arena + bytes);
    m.add(arena, bytes).expect("empty");
    let mut growing = 0.0;
    let begun = Instant::now();
    for i in 0..n as u64 {
        let full = m.memory().len() == m.memory().capacity();
        let call = full.then(Instant::now);
        m.add(FAR + i * STEP, LEN)
            .expect("the arena is large enough");
        if let Some(call) = call {
            growing += call.elapsed().as_nanos() as f64;
        }
    }
    let all = begun.elapsed().as_nanos() as f64;
    assert_eq!(m.memory().len(), n + 1);
    (all, growing)
}

/// A memblock with arrays as small as Linux's. They are leaked: 9 KiB each time.
fn boot_once() -> crate::bed::Boot {
    boot::<128>()
}
