//! Nanoseconds a call.

use std::hint::black_box;
use std::time::Instant;

use samara_bench::{Options, Random, Report};
use samara_memblock::Region;

use crate::bed::{BASE, Bed, LEN, STEP, as_c};
use crate::before::{self, Which};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Sequential,
    Reverse,
    Random,
    Covered,
    Over8,
    Remove8,
    IsMemory,
}

/// Name, call, and what Linux takes at 1k, 10k and 100k regions.
const CALLS: [(&str, Call, [f64; 3]); 7] = [
    (
        "add sequential",
        Call::Sequential,
        [1_395.0, 14_800.0, 195_000.0],
    ),
    ("add reverse", Call::Reverse, [148.0, 2_616.0, 32_600.0]),
    ("add random", Call::Random, [1_048.0, 10_000.0, 117_000.0]),
    (
        "add, already covered",
        Call::Covered,
        [507.0, 4_100.0, 42_000.0],
    ),
    (
        "add over 8 with gaps",
        Call::Over8,
        [3_256.0, 78_000.0, 498_000.0],
    ),
    ("remove over 8", Call::Remove8, [979.0, 10_300.0, 149_000.0]),
    ("is_memory", Call::IsMemory, [76.0, 107.0, 107.0]),
];

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// Calls between two restorations of the array: few, so that its size hardly changes. Calls that change nothing need none.
const BATCH: usize = 16;
const BATCHES: usize = 40;
const QUIET: usize = 2_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    After,
    Before,
    /// One memmove of what lies above the place, by the number of entries that the call leaves more or fewer.
    Memmove,
}

pub fn run(options: &Options) -> Report {
    let mut report = Report::new(
        "memblock: a call at so many regions (Linux: quoted, another machine of this kind)",
        "ns a call",
    );
    for (name, call, linux) in CALLS {
        for (n, linux) in SIZES.into_iter().zip(linux) {
            let name = format!("{name}, {n}");
            if options.wants(&name) {
                let bed = Bed::new(n, BATCH, true);
                measure(&mut report, &name, call, bed, Some(linux), options.runs);
            }
            // Searches begin with a guess that even distances favour.
            let name = format!("{name}, uneven");
            if is_quiet(call) && options.wants(&name) {
                let bed = Bed::new(n, BATCH, false);
                measure(&mut report, &name, call, bed, None, options.runs);
            }
        }
    }
    report
}

/// Calls that change nothing.
fn is_quiet(call: Call) -> bool {
    matches!(call, Call::Covered | Call::IsMemory)
}

fn measure(
    report: &mut Report,
    name: &str,
    call: Call,
    mut bed: Bed,
    linux: Option<f64>,
    runs: u32,
) {
    bed.reset();
    let n = bed.m.memory().len();
    let mut random = Random::new(n as u64);
    let mut subjects = vec![(Subject::After, "samara")];
    subjects.push((Subject::Before, "count, then insert"));
    if !matches!(call, Call::Sequential | Call::Covered | Call::IsMemory) {
        subjects.push((Subject::Memmove, "memmove"));
    }
    let mut figures: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
    // One run more than counted, to warm up.
    for run in 0..=runs {
        let mut sums = vec![0.0; subjects.len()];
        let (batches, calls) = if is_quiet(call) {
            (1, QUIET)
        } else {
            (BATCHES, BATCH)
        };
        for _ in 0..batches {
            let places: Vec<usize> = (0..calls)
                .map(|_| random.below(n as u64 - 20) as usize)
                .collect();
            for (&(subject, _), sum) in subjects.iter().zip(&mut sums) {
                bed.reset();
                *sum += batch(&mut bed, call, subject, &places);
            }
        }
        if run > 0 {
            for (figures, sum) in figures.iter_mut().zip(&sums) {
                figures.push(sum / (batches * calls) as f64);
            }
        }
    }
    let mut names: Vec<&str> = subjects.iter().map(|s| s.1).collect();
    if let Some(linux) = linux {
        names.push("Linux (quoted)");
        figures.push(vec![linux; runs as usize]);
    }
    report.add(name, &names, &figures);
}

/// The range that call number `k` of a batch is about.
fn range(call: Call, n: usize, k: usize, region: u64) -> (u64, u64) {
    match call {
        Call::Sequential => (BASE + (n + k) as u64 * STEP, LEN),
        Call::Reverse => (BASE - (k as u64 + 1) * STEP, LEN),
        // In the gap after a region, not touching. A batch rarely repeats a place, and the effect
        // is small.
        Call::Random => (region + LEN + 0x100 + (k as u64) * 0x100, 0x80),
        Call::Covered => (region + 0x100, 0x200),
        Call::Over8 => (region + 0x100, 8 * STEP - 0x200),
        Call::Remove8 => (region - 0x100, 8 * STEP),
        Call::IsMemory => (region + (k as u64 % 2) * LEN, 1),
    }
}

fn batch(bed: &mut Bed, call: Call, subject: Subject, places: &[usize]) -> f64 {
    let n = as_c(&mut bed.m).memory.cnt;
    let ranges: Vec<(u64, u64)> = places
        .iter()
        .enumerate()
        .map(|(k, &place)| range(call, n, k, bed.base_of(place)))
        .collect();
    let m = &mut bed.m;
    let begun = Instant::now();
    for (&place, &range) in places.iter().zip(&ranges) {
        let (base, size) = black_box(range);
        match (subject, call) {
            (Subject::Memmove, _) => {
                let memory = &mut as_c(m).memory;
                let (from, to) = match call {
                    Call::Reverse => (0, 1),
                    Call::Random => (place, place + 1),
                    Call::Over8 => (place + 8, place + 1),
                    _ => (place + 8, place),
                };
                // SAFETY: at most one entry more than there are, and there is room for it.
                unsafe {
                    memory
                        .regions
                        .add(from)
                        .copy_to(memory.regions.add(to), memory.cnt - from.max(to))
                };
                black_box(memory.regions);
            }
            // The search is the same; only the walk from index 0 is not part of it.
            (_, Call::IsMemory) => {
                black_box(match subject {
                    Subject::After => m.is_memory(base),
                    _ => bisect(m.memory(), base),
                });
            }
            (Subject::After, Call::Remove8) => {
                m.remove(base, size).expect("no region is cut in two")
            }
            (Subject::After, _) => m.add(base, size).expect("there is room"),
            (Subject::Before, Call::Remove8) => before::remove(m, Which::Memory, base, size),
            (Subject::Before, _) => before::add(m, Which::Memory, base, size),
        }
    }
    begun.elapsed().as_nanos() as f64
}

/// A search that decides at each step between below, above and within.
fn bisect(regions: &[Region], addr: u64) -> bool {
    let (mut left, mut right) = (0, regions.len());
    while left < right {
        let middle = left + (right - left) / 2;
        let r = &regions[middle];
        if addr < r.base {
            right = middle;
        } else if addr >= r.end() {
            left = middle + 1;
        } else {
            return true;
        }
    }
    false
}
