//! The maple tree's own benchmarks, by the names that they have in the test module of Linux's tree: the experiment that
//! its duplication was measured by, and load, walk, for-each, prev, slot store and node store.
//!
//! `bench_forking` makes 80,000 duplicates of a tree of 134 entries, *before* as it was done then (nodes set aside in
//! bulk, then one store an entry) and *after* by duplication. Checking and destroying the duplicates is not in the
//! times.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use maple_tree::MapleTree;
use samara_bench::heap::keep_memory;
use samara_bench::{Options, Report};

#[derive(Parser)]
#[command(about = "The benchmarks that the maple tree's test module names")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// `forking` prints its two lines as they were published; `all` measures every one and prints a table.
    #[arg(long, value_enum, default_value_t = What::Forking)]
    bench: What,
    /// Duplicates that `forking` makes.
    #[arg(long, default_value_t = 80_000)]
    forks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Forking,
    All,
}

type Tree = MapleTree<u64, u32>;

/// Entries of the tree that is duplicated.
const FORK_ENTRIES: u64 = 134;
/// Entries of the tree of the other benchmarks, each ten indices long with as many free ones after it.
const ENTRIES: u64 = 2_000;
/// Passes over the tree in one run.
const PASSES: u32 = 50;

fn main() {
    keep_memory();
    let mut cli = Cli::parse();
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    cli.options.pin.get_or_insert(last);
    cli.options.apply();
    if cli.bench == What::Forking && !cli.options.json {
        let tree = tree(FORK_ENTRIES);
        println!(
            "before: {:.2}s",
            forks(&tree, cli.forks, before).as_secs_f64()
        );
        println!(
            "after: {:.2}s",
            forks(&tree, cli.forks, after).as_secs_f64()
        );
        return;
    }
    let mut report = Report::new(
        "The benchmarks that the maple tree's test module names",
        "ns a call",
    );
    if cli.options.wants("bench_forking") {
        let tree = tree(FORK_ENTRIES);
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..cli.options.runs {
            for (figures, fork) in figures.iter_mut().zip([after, before]) {
                let time = forks(&tree, cli.forks, fork);
                figures.push(time.as_nanos() as f64 / f64::from(cli.forks.max(1)));
            }
        }
        report.add("bench_forking", &["after", "before"], &figures);
    }
    if cli.bench == What::All {
        for (name, run) in BENCHES {
            if cli.options.wants(name) {
                let figures: Vec<f64> = (0..cli.options.runs).map(|_| run()).collect();
                report.add(name, &["maple-tree"], &[figures]);
            }
        }
    }
    report.print(cli.options.json);
}

/// Entries as the test module lays them out: `i * 10 ..= i * 10 + 5`.
fn tree(entries: u64) -> Tree {
    let mut tree = Tree::with_gaps();
    for i in 0..entries {
        let _ = tree.store_range(i * 10..=i * 10 + 5, i as u32);
    }
    tree
}

fn before(tree: &Tree) -> Tree {
    let mut copy = Tree::with_gaps();
    let mut cursor = copy.cursor_mut(0..=0);
    let _ = cursor.expected_entries(FORK_ENTRIES as usize);
    for (range, value) in tree {
        cursor.set_range(range);
        let _ = cursor.store(value);
    }
    drop(cursor);
    copy
}

fn after(tree: &Tree) -> Tree {
    tree.try_clone().unwrap_or_default()
}

/// Time of making the duplicates, without that of destroying them.
fn forks(tree: &Tree, count: u32, fork: fn(&Tree) -> Tree) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..count {
        let start = Instant::now();
        let copy = fork(tree);
        time += start.elapsed();
        debug_assert!(copy.check().is_ok());
        drop(black_box(copy));
    }
    time
}

/// Gives nanoseconds a call.
type Bench = fn() -> f64;

/// By the names of the test module.
const BENCHES: [(&str, Bench); 8] = [
    ("bench_load", bench_load),
    ("bench_walk", bench_walk),
    ("bench_mt_for_each", bench_mt_for_each),
    ("bench_mas_for_each", bench_mas_for_each),
    ("bench_find", bench_find),
    ("bench_mas_prev", bench_mas_prev),
    ("bench_slot_store", bench_slot_store),
    ("bench_node_store", bench_node_store),
];

fn time(calls: u64, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / calls as f64
}

const CALLS: u64 = ENTRIES * PASSES as u64;

/// The middle entry again and again.
fn bench_load() -> f64 {
    let tree = tree(ENTRIES);
    let key = ENTRIES / 2 * 10;
    time(CALLS, || {
        for _ in 0..CALLS {
            black_box(tree.get(black_box(key)));
        }
    })
}

/// A cursor to the middle entry, from the root each time.
fn bench_walk() -> f64 {
    let tree = tree(ENTRIES);
    let key = ENTRIES / 2 * 10;
    let mut cursor = tree.cursor(key..=key);
    time(CALLS, || {
        for _ in 0..CALLS {
            cursor.set(black_box(key));
            black_box(cursor.walk());
        }
    })
}

/// All entries, each looked for anew from the index after the last: the simple interface.
fn bench_mt_for_each() -> f64 {
    let tree = tree(ENTRIES);
    time(CALLS, || {
        for _ in 0..PASSES {
            let mut index = 0;
            while let Some((range, value)) = tree.find(index..) {
                black_box(value);
                index = range.end() + 1;
            }
        }
    })
}

/// All entries by a cursor.
fn bench_mas_for_each() -> f64 {
    let tree = tree(ENTRIES);
    time(CALLS, || {
        for _ in 0..PASSES {
            let mut cursor = tree.cursor(0..=0);
            while let Some(value) = cursor.find(..) {
                black_box(value);
            }
        }
    })
}

/// The first entry from a hole on.
fn bench_find() -> f64 {
    let tree = tree(ENTRIES);
    time(CALLS, || {
        for _ in 0..PASSES {
            for i in 0..ENTRIES {
                black_box(tree.find(i * 10 + 7..));
            }
        }
    })
}

/// All entries backwards by a cursor.
fn bench_mas_prev() -> f64 {
    let tree = tree(ENTRIES);
    time(CALLS, || {
        for _ in 0..PASSES {
            let mut cursor = tree.cursor(u64::MAX..=u64::MAX);
            while let Some(value) = cursor.prev(..) {
                black_box(value);
            }
        }
    })
}

/// A store that changes two slots of a leaf: the boundary between an entry and the one that touches it moves there and back.
fn bench_slot_store() -> f64 {
    let mut tree = tree(ENTRIES);
    let first = ENTRIES / 2 * 10;
    let _ = tree.store_range(first..=first + 9, 1);
    let _ = tree.store_range(first + 10..=first + 15, 2);
    time(CALLS, || {
        for _ in 0..CALLS / 2 {
            let _ = black_box(tree.store_range(first + 8..=first + 15, 3));
            let _ = black_box(tree.store_range(first..=first + 9, 4));
        }
    })
}

/// Stores that rewrite a leaf: an entry comes into the middle of a hole, and goes again.
fn bench_node_store() -> f64 {
    let mut tree = tree(ENTRIES);
    let first = ENTRIES / 2 * 10;
    time(CALLS, || {
        for _ in 0..CALLS / 2 {
            let _ = black_box(tree.store_range(first + 7..=first + 8, 3));
            let _ = black_box(tree.erase_range(first + 7..=first + 8));
        }
    })
}
