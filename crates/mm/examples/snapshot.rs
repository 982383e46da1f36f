//! A key-value store takes a snapshot of itself while it is written to, as databases do with `fork`: its memory belongs to a process of the engine, a child
//! is forked, and another thread reads the child to the end. What a `put` takes is told before, during and after, as a histogram.
//!
//! `cargo run --release -p samara-mm --features hosted --example snapshot [MIB [share|copy]]`: by default, 1,024 MiB, of which a fork
//! [shares](ForkMode::Share) the page tables. The machine has twice as much memory, since each page may be written to while both use it.

use std::error::Error;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use samara_mm::process::{ForkMode, Hosted, Machine, Process};
use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
use samara_paging::Arena;

const PAGE: u64 = 4096;
/// A key, a version, and what there is of a value.
const RECORD: usize = 256;
const RECORDS_A_PAGE: u64 = PAGE / RECORD as u64;
/// The time during which puts are measured before and after the snapshot.
const A_WHILE: Duration = Duration::from_millis(500);

/// Records by key, in the memory of a process: the place of a key follows from the key.
struct Store<'a> {
    memory: &'a Process<Hosted>,
    start: u64,
    keys: u64,
}

impl Store<'_> {
    /// Keys in order lie far apart, as with a hash; each has a place of its own, since the factor is odd and the number of places a power of two.
    fn place(&self, key: u64) -> u64 {
        let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.keys - 1);
        self.start + place * RECORD as u64
    }

    fn put(&self, key: u64, version: u64) -> bool {
        let mut record = [version as u8; RECORD];
        record[..8].copy_from_slice(&key.to_le_bytes());
        record[8..16].copy_from_slice(&version.to_le_bytes());
        self.memory.copy_in(self.place(key), &record) == RECORD
    }

    fn version(&self, key: u64) -> Option<u64> {
        let mut record = [0; RECORD];
        if self.memory.copy_out(self.place(key), &mut record) < RECORD {
            return None;
        }
        let word = |at: usize| {
            let bytes = record[at..at + 8].try_into();
            bytes.map(u64::from_le_bytes).unwrap_or(u64::MAX)
        };
        (word(0) == key).then(|| word(8))
    }
}

/// A histogram of the duration of puts: bucket `n` counts those of less than 2ⁿ nanoseconds.
struct Latencies {
    buckets: [u64; 40],
    longest: Duration,
}

impl Latencies {
    const NONE: Latencies = Latencies {
        buckets: [0; 40],
        longest: Duration::ZERO,
    };

    fn note(&mut self, took: Duration) {
        let bits = u128::BITS - took.as_nanos().leading_zeros();
        self.buckets[(bits as usize).min(39)] += 1;
        self.longest = self.longest.max(took);
    }

    fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns an upper bound of this quantile, in thousandths.
    fn quantile(&self, per_mille: u64) -> Duration {
        let mut left = self.count() * per_mille / 1000;
        for (bits, &count) in self.buckets.iter().enumerate() {
            if left <= count {
                return Duration::from_nanos(1 << bits);
            }
            left -= count;
        }
        self.longest
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mib: u64 = args.next().map_or(Ok(1024), |text| text.parse())?;
    let mode = match args.next().as_deref() {
        None | Some("share") => ForkMode::Share,
        Some("copy") => ForkMode::Copy,
        Some(other) => return Err(format!("{other} is neither share nor copy").into()),
    };
    if !mib.is_power_of_two() || mib > 1 << 16 {
        return Err("the size in MiB must be a power of two, at most 65,536".into());
    }
    let pages = (mib << 20) / PAGE;
    // Each page twice, and tables for both.
    let frames = (2 * pages + pages / 128 + 64) as usize;
    let machine = Machine::over(Arena::on_heap(frames)?).map_err(text)?;
    let parent = Process::new(
        &machine,
        Config::default(),
        Limits::default(),
        Layout::default(),
    )
    .map_err(text)?;
    let memory = MmapOptions::anonymous(mib << 20).prot(Prot::READ | Prot::WRITE);
    let store = Store {
        start: parent.mmap(&memory).map_err(text)?,
        keys: pages * RECORDS_A_PAGE,
        memory: &parent,
    };

    // The version that each key should have, which the store does not look at.
    let mut versions = vec![0; store.keys as usize];
    for key in 0..store.keys {
        if !store.put(key, 0) {
            return Err("no memory to fill the store".into());
        }
    }
    println!("{} keys in {mib} MiB", store.keys);

    let mut rng = 1u64;
    let mut put = |versions: &mut [u64], into: &mut Latencies| {
        rng = rng
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let key = (rng >> 33) & (store.keys - 1);
        versions[key as usize] += 1;
        let began = Instant::now();
        let done = store.put(key, versions[key as usize]);
        into.note(began.elapsed());
        done
    };
    let [mut before, mut during, mut after] = [Latencies::NONE; 3];

    let until = Instant::now() + A_WHILE;
    while Instant::now() < until {
        put(&mut versions, &mut before);
    }

    let began = Instant::now();
    let child = parent.fork(mode).map_err(text)?;
    let frozen = began.elapsed();
    let at_the_fork = versions.clone();

    // Puts go on until the other thread has read every record of the child, which must be as old as the fork.
    let done = AtomicBool::new(false);
    let (wrong, took, tables) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let began = Instant::now();
            let snapshot = Store {
                memory: &child,
                ..store
            };
            let wrong = (0..snapshot.keys)
                .filter(|&key| snapshot.version(key) != Some(at_the_fork[key as usize]))
                .count();
            let took = began.elapsed();
            done.store(true, Ordering::Release);
            (wrong, took)
        });
        while !done.load(Ordering::Acquire) {
            put(&mut versions, &mut during);
        }
        let tables = machine.stats().tables;
        let (wrong, took) = reader.join().unwrap_or((usize::MAX, Duration::ZERO));
        (wrong, took, tables)
    });
    drop(child);

    let until = Instant::now() + A_WHILE;
    while Instant::now() < until {
        put(&mut versions, &mut after);
    }

    println!("the fork stopped the store for {frozen:?} ({mode:?})");
    println!(
        "{wrong} records of the snapshot differ from the moment of the fork; it was read in {took:?}, with {tables} page tables in use"
    );
    print!("{}", histogram(&[before, during, after]));
    let lost = (0..store.keys)
        .filter(|&key| store.version(key) != Some(versions[key as usize]))
        .count();
    println!("{lost} puts were lost");
    if wrong + lost > 0 {
        return Err("the snapshot, or the store, is wrong".into());
    }
    Ok(())
}

/// Returns a line for each bucket that was used, a column for each phase.
fn histogram(phases: &[Latencies; 3]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\n{:>9}  {:<22}{:<22}{:<22}",
        "below", "before", "during", "after"
    );
    for bits in 0..40 {
        if phases.iter().all(|phase| phase.buckets[bits] == 0) {
            continue;
        }
        let below = format!("{:?}", Duration::from_nanos(1 << bits));
        let _ = write!(out, "{below:>9}  ");
        for phase in phases {
            let share = phase.buckets[bits] as f64 / phase.count().max(1) as f64;
            let bar = "#".repeat((share * 12.0).round() as usize);
            let _ = write!(out, "{:>8} {bar:<12} ", phase.buckets[bits]);
        }
        out.push('\n');
    }
    for (name, per_mille) in [("half", 500), ("99 %", 990), ("99.9 %", 999)] {
        let _ = write!(out, "{name:>9}  ");
        for phase in phases {
            let _ = write!(out, "{:<22}", format!("< {:?}", phase.quantile(per_mille)));
        }
        out.push('\n');
    }
    let _ = write!(out, "{:>9}  ", "longest");
    for phase in phases {
        let _ = write!(out, "{:<22}", format!("{:?}", phase.longest));
    }
    out.push('\n');
    out
}

fn text(errno: Errno) -> String {
    errno.to_string()
}
