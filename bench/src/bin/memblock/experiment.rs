//! The experiment of the idea's author: Linux's own tests of memblock were run 100 times under a
//! profiler before and after the change, and the shares of time in `memblock_add_range` compared.
//! Here a mix of the same kind of work is run as often with either scheme. Regions are added,
//! reserved, removed and freed in every relation to each other, arrays double, memory is allocated,
//! filled before and checked afterwards, and everything is reset in between.
//!
//! The time of adding is read from the processor's time stamp counter around each addition, less
//! the cost of reading it. A stretch between two readings that is far longer than any addition was
//! spent off the processor. It is left out, as a profiler leaves it out.

use samara_bench::Report;
use samara_memblock::{NodeId, Region};

use crate::bed::{Boot, as_c, boot, leak};
use crate::before::{self, Which};

const MEMORY: usize = 32 << 10;
const FIRST: usize = 128;

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

struct World {
    m: Boot,
    /// The first arrays, to be put back.
    first: [*mut Region; 2],
    arena: *mut u8,
    before: bool,
    /// When the counter was last read.
    last: u64,
    in_add: u64,
    beside: u64,
    adds: u64,
    left_out: u64,
}

/// Ticks that no stretch takes undisturbed: the longest, an array that doubles, takes some thousands.
const DISTURBED: u64 = 60_000;

impl World {
    fn new(arena: *mut u8, before: bool) -> Self {
        let mut m = boot::<FIRST>();
        let c = as_c(&mut m);
        let first = [c.memory.regions, c.reserved.regions];
        m.allow_resize();
        World {
            m,
            first,
            arena,
            before,
            last: 0,
            in_add: 0,
            beside: 0,
            adds: 0,
            left_out: 0,
        }
    }

    fn add(&mut self, which: Which, base: u64, size: u64) {
        self.beside += self.stretch();
        if self.before {
            before::add(&mut self.m, which, base, size);
        } else if which == Which::Memory {
            self.m.add(base, size).expect("room");
        } else {
            self.m.reserve(base, size).expect("room");
        }
        self.in_add += self.stretch();
        self.adds += 1;
    }

    /// Ticks since this was last called, if nothing came between.
    fn stretch(&mut self) -> u64 {
        let now = ticks();
        let ticks = now - std::mem::replace(&mut self.last, now);
        if ticks > DISTURBED {
            self.left_out += 1;
            return 0;
        }
        ticks
    }

    fn alloc(&mut self, size: u64, align: u64) -> Option<u64> {
        let found = self.m.find_in_range_node(
            size,
            align,
            0,
            0,
            NodeId::NONE,
            samara_memblock::Flags::NONE,
        )?;
        self.add(Which::Reserved, found, size);
        Some(found)
    }

    /// As the tests do before each case: fields back to their defaults, arrays cleared.
    fn reset(&mut self) {
        let first = self.first;
        let c = as_c(&mut self.m);
        for (t, regions) in [&mut c.memory, &mut c.reserved].into_iter().zip(first) {
            t.regions = regions;
            t.max = FIRST;
            // SAFETY: the first arrays have 128 entries.
            unsafe { regions.write_bytes(0, FIRST) };
            t.cnt = 0;
            t.total_size = 0;
        }
        c.current_limit = u64::MAX;
        self.m.set_bottom_up(false);
    }

    /// Fresh memory, filled with something.
    fn memory(&mut self) -> u64 {
        // SAFETY: the arena is that large, and nothing refers to it.
        unsafe { self.arena.write_bytes(1, MEMORY) };
        let base = self.arena as u64;
        self.add(Which::Memory, base, MEMORY as u64);
        base
    }

    /// Two ranges in every relation, in both arrays.
    fn relations(&mut self) {
        for which in [Which::Memory, Which::Reserved] {
            for shift in [-0x3000i64, -0x2000, -0x1000, 0, 0x1000, 0x2000, 0x3000] {
                for size in [0x1000, 0x2000, 0x4000] {
                    self.reset();
                    self.add(which, 0x1_0000, 0x2000);
                    self.add(which, 0x1_0000u64.wrapping_add_signed(shift), size);
                    self.add(which, 0x1_0000, 0x2000);
                    let result = match which {
                        Which::Memory => self.m.remove(0x1_0000, 0x1000),
                        Which::Reserved => self.m.free(0x1_0000, 0x1000),
                    };
                    assert!(result.is_ok());
                }
            }
        }
    }

    /// The reserved array doubles with the last region at any of its places.
    fn doubling(&mut self) {
        for skipped in (0..=FIRST as u64).step_by(16) {
            self.reset();
            self.memory();
            let at = |i: u64| 0x1000 + i * 0x100;
            for i in (0..=FIRST as u64).filter(|&i| i != skipped) {
                self.add(Which::Reserved, at(i), 0x80);
            }
            self.add(Which::Reserved, at(skipped), 0x80);
            assert_eq!(as_c(&mut self.m).reserved.max, 2 * FIRST);
        }
    }

    /// Allocates in both directions, next to reserved ranges, and checks the results.
    fn allocations(&mut self) {
        for bottom_up in [false, true] {
            for case in 0..40u64 {
                self.reset();
                let base = self.memory();
                self.m.set_bottom_up(bottom_up);
                self.add(Which::Reserved, base + case * 0x200, 0x100);
                self.add(Which::Reserved, base + 0x6000 - case * 0x100, 0x80);
                for size in [0x40, 0x100, 0x1000] {
                    if let Some(found) = self.alloc(size, 64) {
                        let memory = std::ptr::with_exposed_provenance_mut::<u8>(found as usize);
                        // SAFETY: within the arena.
                        let cleared = unsafe {
                            memory.write_bytes(0, size as usize);
                            std::slice::from_raw_parts(memory, size as usize)
                        };
                        assert!(cleared.iter().all(|&b| std::hint::black_box(b) == 0));
                    }
                }
            }
        }
    }

    /// Percent of the time in adding.
    fn share(&mut self, cost_of_ticks: f64) -> f64 {
        (self.in_add, self.beside, self.adds) = (0, 0, 0);
        self.stretch();
        for _ in 0..3 {
            self.relations();
            self.doubling();
            self.allocations();
        }
        self.beside += self.stretch();
        // Each addition lies between two clock readings, and so does the other work.
        let reading = self.adds as f64 * cost_of_ticks;
        let (in_add, beside) = (self.in_add as f64 - reading, self.beside as f64 - reading);
        100.0 * in_add.max(0.0) / (in_add.max(0.0) + beside)
    }
}

/// Returns the cost of a clock reading, as measured between two of them.
fn cost_of_ticks() -> f64 {
    (0..1000)
        .map(|_| {
            let begun = ticks();
            ticks() - begun
        })
        .min()
        .unwrap_or(0) as f64
}

pub fn run(runs: u32) -> Report {
    let arena = leak(MEMORY).as_ptr();
    let (mut after, mut before) = (World::new(arena, false), World::new(arena, true));
    let cost = cost_of_ticks();
    let mut figures = vec![Vec::new(), Vec::new()];
    for run in 0..=runs {
        let shares = [after.share(cost), before.share(cost)];
        if run > 0 {
            for (figures, share) in figures.iter_mut().zip(shares) {
                figures.push(share);
            }
        }
    }
    let average = |f: &[f64]| f.iter().sum::<f64>() / f.len().max(1) as f64;
    let title = format!(
        "memblock: share of the time in adding, {runs} runs: average before {:.2} %, after {:.2} % ({} additions a run; {} stretches left out)",
        average(&figures[1]),
        average(&figures[0]),
        after.adds,
        after.left_out + before.left_out,
    );
    let mut report = Report::new(&title, "percent");
    report.add(
        "share in adding",
        &["one pass (after)", "count, then insert (before)"],
        &figures,
    );
    report
}
