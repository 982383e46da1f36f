//! Concurrent readers, with and without a writer: millions of calls a second, for a fixed time.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samara_bench::shared::{
    Locked, MapleEpoch, MapleShared, MapleWaiting, Scc, SharedMap, Skip, Swapped,
};
use samara_bench::{Options, Random, Ranges, Report, Row, Sense, Target, pin};

/// Entries of the maps.
const ENTRIES: u64 = 100_000;

/// Millions of look-ups and of pairs of writes a second.
struct Rates {
    looks: f64,
    pairs: f64,
}

/// Returns rows for one to all readers, and for a reader with a concurrent writer.
pub(crate) fn report(options: &Options, quick: bool) -> Report {
    let mut report = Report::new("Readers and a writer, 100,000 entries", "M/s");
    report.rows = rows(options, quick, true);
    report.judge();
    report
}

/// The rows that the table has of this; `all` adds those that only the picture shows.
pub(crate) fn rows(options: &Options, quick: bool, all: bool) -> Vec<Row> {
    let mut random = Random::new(ENTRIES);
    let ranges = Ranges::new(ENTRIES, &mut random);
    let time = Duration::from_millis(if quick { 20 } else { 100 });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    let mut mixes = vec![(2, false), (1, true)];
    if all {
        mixes = (1..=processors).map(|readers| (readers, false)).collect();
        mixes.extend((1..processors.max(2)).map(|readers| (readers, true)));
    }
    for (readers, writer) in mixes {
        let plural = if readers == 1 { "" } else { "s" };
        let name = format!("{readers} reader{plural}");
        let names = if writer {
            vec![
                format!("{name} beside 1 writer, look-ups"),
                format!("{name} beside 1 writer, erase + store pairs"),
            ]
        } else {
            vec![name]
        };
        if !names.iter().any(|name| options.wants(name)) {
            continue;
        }
        let mut subjects = Vec::new();
        let mut looks: Vec<Vec<f64>> = Vec::new();
        let mut pairs: Vec<Vec<f64>> = Vec::new();
        let mut mix = Mix {
            ranges: &ranges,
            readers,
            writer,
            time,
            run: 0,
        };
        for run in 0..options.runs {
            mix.run = run;
            let figures = [
                (MapleShared::NAME, mix.run::<MapleShared>()),
                (MapleEpoch::NAME, mix.run::<MapleEpoch>()),
                (Locked::NAME, mix.run::<Locked>()),
                (Skip::NAME, mix.run::<Skip>()),
                (Scc::NAME, mix.run::<Scc>()),
                (Swapped::NAME, mix.run::<Swapped>()),
            ];
            for (i, (name, rates)) in figures.into_iter().enumerate() {
                if run == 0 {
                    subjects.push(name);
                    looks.push(Vec::new());
                    pairs.push(Vec::new());
                }
                looks[i].push(rates.looks);
                pairs[i].push(rates.pairs);
            }
        }
        for (i, (name, figures)) in names.iter().zip([looks, pairs]).enumerate() {
            let mut row = Row::new(name, Sense::More, &subjects, &figures);
            row.unit = Some("M/s".to_owned());
            row.target = target(readers, writer, i == 1);
            rows.push(row);
        }
    }
    rows.extend(staying(options, &ranges, time));
    rows
}

/// Entries that a reader goes through before it leaves.
const SCANNED: usize = 4_000;

/// Returns rows for writers with long-running readers: a reader of the writer's own thread, and one
/// that scans thousands of entries.
fn staying(options: &Options, ranges: &Ranges, time: Duration) -> Vec<Row> {
    const OWN: &str = "erase + store pairs beside a reader of the same thread";
    const SCAN: &str = "erase + store pairs beside a reader of 4,000 entries a section";
    let mut rows = Vec::new();
    for (name, scans) in [(OWN, false), (SCAN, true)] {
        if !options.wants(name) {
            continue;
        }
        let figures = (0..options.runs).map(|run| {
            let items = ranges.shuffled(&mut Random::new(u64::from(run) + 1));
            let map = MapleWaiting::filled(&ranges.items);
            if scans {
                beside_scans(&map, &items, time)
            } else {
                let items = &items[..10_000];
                let begin = Instant::now();
                map.pair_while_reading(items);
                items.len() as f64 / begin.elapsed().as_secs_f64() / 1e6
            }
        });
        let figures = vec![figures.collect()];
        let mut row = Row::new(name, Sense::More, &[MapleWaiting::NAME], &figures);
        row.unit = Some("M/s".to_owned());
        // A pair is two writes: 100,000 writes a second.
        row.target = Some(Target::new(0.05, &[], None));
        rows.push(row);
    }
    rows
}

/// Returns millions of pairs a second while a thread reads section after section.
fn beside_scans(map: &MapleWaiting, items: &[samara_bench::peers::Item], time: Duration) -> f64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let mut from = items.iter().cycle();
            while !stop.load(Ordering::Relaxed) {
                let from = from.next().map_or(0, |item| item.0);
                black_box(map.scan(from, SCANNED));
            }
        });
        pin(1);
        let begin = Instant::now();
        let mut done = 0;
        while begin.elapsed() < time {
            map.pair(items[done % items.len()]);
            done += 1;
        }
        let rate = done as f64 / begin.elapsed().as_secs_f64() / 1e6;
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

fn target(readers: usize, writer: bool, pairs: bool) -> Option<Target> {
    match (readers, writer, pairs) {
        (2, false, _) => Some(Target::new(
            30.0,
            &[(Locked::NAME, 8.0), (Skip::NAME, 9.0)],
            Some(18.9),
        )),
        (1, true, false) => Some(Target::new(
            12.0,
            &[(Locked::NAME, 0.17), (Skip::NAME, 2.0)],
            Some(7.1),
        )),
        (1, true, true) => Some(Target::new(
            2.5,
            &[(Locked::NAME, 2.1), (Skip::NAME, 1.7)],
            Some(1.39),
        )),
        _ => None,
    }
}

struct Mix<'a> {
    ranges: &'a Ranges,
    readers: usize,
    writer: bool,
    time: Duration,
    run: u32,
}

impl Mix<'_> {
    /// All threads start together; each counts its calls until the time is over.
    fn run<M: SharedMap>(&self) -> Rates {
        const AT_ONCE: usize = 64;
        let map = M::filled(&self.ranges.items);
        let threads = self.readers + usize::from(self.writer);
        let start = Barrier::new(threads + 1);
        let stop = AtomicBool::new(false);
        let mut rates = Rates {
            looks: 0.0,
            pairs: 0.0,
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|i| {
                    let (map, start, stop) = (&map, &start, &stop);
                    let writes = i >= self.readers;
                    scope.spawn(move || {
                        pin(i);
                        let mut random = Random::new(u64::from(self.run) * 64 + i as u64 + 1);
                        let keys = self.ranges.hits(1 << 16, &mut random);
                        let items = self.ranges.shuffled(&mut random);
                        start.wait();
                        let begin = Instant::now();
                        let mut done = 0;
                        while !stop.load(Ordering::Relaxed) {
                            for i in done..done + AT_ONCE {
                                if writes {
                                    map.pair(items[i % items.len()]);
                                } else {
                                    black_box(map.get(keys[i & 0xffff]));
                                }
                            }
                            done += AT_ONCE;
                        }
                        (writes, done as f64 / begin.elapsed().as_secs_f64() / 1e6)
                    })
                })
                .collect();
            start.wait();
            std::thread::sleep(self.time);
            stop.store(true, Ordering::Relaxed);
            for handle in handles {
                match handle.join() {
                    Ok((true, rate)) => rates.pairs += rate,
                    Ok((false, rate)) => rates.looks += rate,
                    Err(_) => eprintln!("a thread of {} panicked", M::NAME),
                }
            }
        });
        rates
    }
}
