//! The same system calls on an `AddressSpace`, on a hand-written `RwLock<BTreeMap>` of areas, and
//! on the crate `memory_set`, in turn and in one run. Prints nanoseconds a call (a pair counts as
//! one), the median and the minimum of several runs.
//!
//! `cargo run --release -p samara-areas [-- --json]`. The rivals do less: neither has limits, files, page offsets, owners of private
//! pages or Linux's errors; `memory_set` joins nothing.

mod btree;
mod set;

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use samara_bench_data::Random;
use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
use serde::Serialize;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;
/// The areas of the larger rows begin here, upwards.
const LOW: u64 = 0x2_0000_0000;
const RUNS: usize = 9;

/// The operations that the benchmark needs. Protections are `PROT_READ` with or without
/// `PROT_WRITE`.
trait Areas: Sized {
    const NAME: &'static str;
    fn new() -> Self;
    fn map_at(&mut self, addr: u64, len: u64, write: bool);
    /// Maps where there is room, and gives the address.
    fn map(&mut self, len: u64) -> u64;
    fn unmap(&mut self, addr: u64, len: u64);
    fn protect(&mut self, addr: u64, len: u64, write: bool);
    /// The first write to a page.
    fn touch(&mut self, addr: u64);
}

impl Areas for AddressSpace {
    const NAME: &'static str = "samara-mm";

    fn new() -> Self {
        let space = AddressSpace::new(Config::default(), Limits::default(), Layout::default());
        match space {
            Ok(space) => space,
            Err(errno) => panic!("no address space: {errno}"),
        }
    }

    fn map_at(&mut self, addr: u64, len: u64, write: bool) {
        let _ = self.mmap(&MmapOptions::anonymous(len).prot(prot(write)).fixed(addr));
    }

    fn map(&mut self, len: u64) -> u64 {
        self.mmap(&MmapOptions::anonymous(len).prot(prot(true)))
            .unwrap_or(0)
    }

    fn unmap(&mut self, addr: u64, len: u64) {
        let _ = self.munmap(addr, len);
    }

    fn protect(&mut self, addr: u64, len: u64, write: bool) {
        let _ = self.mprotect(addr, len, prot(write));
    }

    fn touch(&mut self, addr: u64) {
        let _ = self.fault(addr, true);
    }
}

const fn prot(write: bool) -> Prot {
    if write {
        Prot::READ.union(Prot::WRITE)
    } else {
        Prot::READ
    }
}

#[derive(Serialize)]
struct Row {
    row: String,
    name: &'static str,
    median_ns: f64,
    least_ns: f64,
    /// The median divided by that of the first in the row.
    ratio: f64,
}

/// Nanoseconds a call of the random mix.
fn mix<A: Areas>() -> f64 {
    const CALLS: u32 = 100_000;
    let mut areas = A::new();
    let mut random = Random::new(1);
    let began = Instant::now();
    for _ in 0..CALLS {
        let addr = BASE + random.below(256) * PAGE;
        let len = (1 + random.below(8)) * PAGE;
        match random.below(10) {
            0..4 => areas.map_at(addr, len, true),
            4..6 => areas.unmap(addr, len),
            6..9 => areas.protect(addr, len, random.below(2) == 1),
            _ => areas.touch(addr),
        }
    }
    nanoseconds(began, CALLS)
}

/// Returns `count` areas of four pages, two pages apart, every second one read-only.
fn populated<A: Areas>(count: u64) -> A {
    let mut areas = A::new();
    for i in 0..count {
        areas.map_at(LOW + 6 * PAGE * i, 4 * PAGE, i % 2 == 0);
    }
    areas
}

fn map_and_unmap<A: Areas>(count: u64) -> f64 {
    let pairs = if count > 1_000 { 300 } else { 20_000 };
    let mut areas = populated::<A>(count);
    let began = Instant::now();
    for _ in 0..pairs {
        let addr = black_box(areas.map(PAGE));
        areas.unmap(addr, PAGE);
    }
    nanoseconds(began, pairs)
}

fn split_and_heal<A: Areas>(count: u64) -> f64 {
    let pairs = if count > 1_000 { 300 } else { 20_000 };
    let mut areas = populated::<A>(count);
    let mut random = Random::new(1);
    let began = Instant::now();
    for _ in 0..pairs {
        let addr = LOW + 6 * PAGE * 2 * random.below(count / 2) + PAGE;
        areas.protect(addr, PAGE, false);
        areas.protect(addr, PAGE, true);
    }
    nanoseconds(began, pairs)
}

fn nanoseconds(began: Instant, calls: u32) -> f64 {
    began.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// The participants in turn, several times.
fn row(name: &str, participants: [(&'static str, &dyn Fn() -> f64); 3]) -> Vec<Row> {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..RUNS {
        for ((_, run), times) in participants.iter().zip(&mut times) {
            times.push(run());
        }
    }
    let mut first = None;
    participants
        .iter()
        .zip(times)
        .map(|((participant, _), mut times)| {
            times.sort_by(f64::total_cmp);
            let median = times[RUNS / 2];
            let ours = *first.get_or_insert(median);
            Row {
                row: name.to_owned(),
                name: participant,
                median_ns: median,
                least_ns: times[0],
                ratio: median / ours,
            }
        })
        .collect()
}

macro_rules! row {
    ($name:expr, $run:ident($($argument:expr)?)) => {
        row(
            $name,
            [
                (AddressSpace::NAME, &|| $run::<AddressSpace>($($argument)?)),
                (btree::Locked::NAME, &|| $run::<btree::Locked>($($argument)?)),
                (set::Set::NAME, &|| $run::<set::Set>($($argument)?)),
            ],
        )
    };
}

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args().any(|word| word == "--json");
    let rows: Vec<Row> = [
        row!("mix", mix()),
        row!("map and unmap a page, 24 areas", map_and_unmap(24)),
        row!("map and unmap a page, 60,000 areas", map_and_unmap(60_000)),
        row!("split and heal, 24 areas", split_and_heal(24)),
        row!("split and heal, 60,000 areas", split_and_heal(60_000)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    println!(
        "{:36} {:22} {:>12} {:>12} {:>9}",
        "nanoseconds", "", "median", "least", "ratio"
    );
    for Row {
        row,
        name,
        median_ns,
        least_ns,
        ratio,
    } in rows
    {
        println!("{row:36} {name:22} {median_ns:>12.0} {least_ns:>12.0} {ratio:>9.2}");
    }
    Ok(())
}
