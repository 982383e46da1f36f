//! The table: the operations by which users choose a range map, their rivals, and their targets.
//!
//! Targets are given as they were set: nanoseconds on one machine, with the figures of rivals and
//! of Linux's tree (its
//! source compiled in user space, with a fast node pool) on that machine. Only the ratio to the
//! rival counts.

use samara_bench::peers::Kind;
use samara_bench::{Options, Report, Row, Sense, Target};

use crate::work::{Data, subjects};
use crate::{memory, readers};

struct Operation {
    name: &'static str,
    kind: Kind,
    entries: u64,
    target: Option<Figures>,
}

/// The figures from which the target was derived.
#[derive(Clone, Copy)]
struct Figures {
    ours: f64,
    rivals: &'static [(&'static str, f64)],
    linux: Option<f64>,
}

const fn shown(name: &'static str, kind: Kind, entries: u64) -> Operation {
    Operation {
        name,
        kind,
        entries,
        target: None,
    }
}

const fn row(
    name: &'static str,
    kind: Kind,
    entries: u64,
    ours: f64,
    rivals: &'static [(&'static str, f64)],
    linux: Option<f64>,
) -> Operation {
    Operation {
        name,
        kind,
        entries,
        target: Some(Figures {
            ours,
            rivals,
            linux,
        }),
    }
}

const K: u64 = 1_000;
const M: u64 = 1_000_000;
const ONE_BY_ONE: &str = "one insertion an entry";

#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    row("duplicate 134", Kind::Duplicate, 134, 170.0, &[("BTreeMap", 400.0), ("iset", 172.0)], Some(385.0)),
    row("duplicate 134, new values", Kind::Renew, 134, 600.0, &[], Some(3475.0)),
    row("duplicate 134 / by insertions", Kind::Duplicate, 134, 1.0, &[(ONE_BY_ONE, 80.0)], None),
    row("duplicate 4,023", Kind::Duplicate, 4_023, 6_000.0, &[("iset", 5_300.0), ("BTreeMap", 12_900.0)], Some(15_500.0)),
    row("duplicate 100k", Kind::Duplicate, 100 * K, 200_000.0, &[("iset", 143_000.0), ("BTreeMap", 403_000.0)], Some(552_000.0)),
    row("snapshot 100k", Kind::Snapshot, 100 * K, 20.0, &[("im", 4.5)], None),
    shown("snapshot, store, drop it, 100k", Kind::Versions, 100 * K),
    row("destroy 134", Kind::Destroy, 134, 40.0, &[("iset", 9.0), ("BTreeMap", 234.0)], Some(41.0)),
    row("destroy 100k", Kind::Destroy, 100 * K, 50_000.0, &[], Some(50_000.0)),
    row("get 1k", Kind::Get, K, 20.0, &[("BTreeMap", 41.0), ("sorted Vec", 11.0)], Some(32.0)),
    row("get 10k", Kind::Get, 10 * K, 28.0, &[("BTreeMap", 59.0), ("sorted Vec", 40.0)], Some(48.0)),
    row("get 100k", Kind::Get, 100 * K, 50.0, &[("BTreeMap", 101.0), ("sorted Vec", 43.0)], Some(80.0)),
    row("get 1M", Kind::Get, M, 200.0, &[("BTreeMap", 354.0), ("sorted Vec", 236.0)], Some(262.0)),
    row("get 16 at once, a key, 1M", Kind::GetMany, M, 80.0, &[], None),
    shown("get, miss, 1k", Kind::Miss, K),
    shown("get, miss, 100k", Kind::Miss, 100 * K),
    shown("get, miss, 1M", Kind::Miss, M),
    row("iterate 1k, an entry", Kind::Iterate, K, 1.3, &[("BTreeMap", 1.3)], Some(7.0)),
    row("iterate 1M, an entry", Kind::Iterate, M, 4.0, &[("BTreeMap", 5.5)], Some(12.6)),
    row("append 1k", Kind::Append, K, 25.0, &[("BTreeMap", 20.0)], Some(112.0)),
    row("append 100k", Kind::Append, 100 * K, 40.0, &[("BTreeMap", 49.0)], Some(165.0)),
    row("descending insert 100k", Kind::Descend, 100 * K, 87.0, &[], None),
    row("split off half of 100k", Kind::SplitHalf, 100 * K, 10_500.0, &[("BTreeMap", 7_000.0)], None),
    row("split off all but ten of 100k", Kind::SplitAllButTen, 100 * K, 600.0, &[("BTreeMap", 400.0)], None),
    row("append one entry to 100k", Kind::AppendOne, 100 * K, 740_000.0, &[("BTreeMap", 494_000.0)], None),
    row("from a sorted iterator 100k", Kind::FromSorted, 100 * K, 8.0, &[], Some(78.0)),
    row("random insert 100k", Kind::Insert, 100 * K, 120.0, &[("BTreeMap", 114.0)], Some(494.0)),
    row("random erase 100k", Kind::Erase, 100 * K, 140.0, &[("BTreeMap", 134.0)], Some(730.0)),
    row("exact replace 1k", Kind::Replace, K, 25.0, &[], Some(63.0)),
    row("overwrite of 1-8 entries, 100k", Kind::Overwrite, 100 * K, 400.0, &[("nodit", 454.0)], Some(1055.0)),
    row("erase + store, readers allowed, 100k", Kind::Pair, 100 * K, 350.0, &[("BTreeMap", 241.0)], Some(807.0)),
    row("gap of 1 page, up, 100k", Kind::GapUp(1), 100 * K, 60.0, &[("BTreeMap", 264.0)], Some(126.0)),
    row("gap of 1 page, down, 100k", Kind::GapDown(1), 100 * K, 60.0, &[("BTreeMap", 264.0)], Some(126.0)),
    row("gap of 4,096 pages, up, 100k", Kind::GapUp(4096), 100 * K, 60.0, &[("BTreeMap", 3650.0)], Some(106.0)),
    row("gap of 4,096 pages, down, 100k", Kind::GapDown(4096), 100 * K, 60.0, &[("BTreeMap", 3650.0)], Some(106.0)),
];

/// All rows.
pub(crate) fn report(options: &Options, quick: bool) -> Report {
    let mut report = Report::new("The maple tree and its rivals", "ns");
    for operation in OPERATIONS {
        if options.wants(operation.name)
            && let Some(row) = measure(operation, options, quick)
        {
            report.rows.push(row);
        }
    }
    report.rows.extend(bytes(options));
    report.rows.extend(readers::rows(options, quick, false));
    report.judge();
    report
}

fn measure(operation: &Operation, options: &Options, quick: bool) -> Option<Row> {
    let rivals = operation.target.map_or(&[][..], |figures| figures.rivals);
    let by_insertions = rivals.iter().any(|&(name, _)| name == ONE_BY_ONE);
    let wanted = |subject: &str| {
        let named = rivals.iter().any(|&(name, _)| name == subject);
        match subject {
            ONE_BY_ONE => by_insertions,
            _ if subject.starts_with("maple-tree") => true,
            _ if by_insertions => false,
            // Without a target, the one that everybody knows.
            _ => named || !quick || (rivals.is_empty() && ["BTreeMap", "im"].contains(&subject)),
        }
    };
    let calls = if quick { 20_000 } else { 100_000 };
    let data = Data::new(operation.entries, calls);
    let mut subjects = subjects(operation.kind, &wanted);
    if !subjects.first()?.name().starts_with("maple-tree") {
        return None;
    }
    let mut figures = vec![Vec::new(); subjects.len()];
    for run in 0..options.runs {
        let order = data.order(operation.kind, run);
        for (subject, figures) in subjects.iter_mut().zip(&mut figures) {
            figures.push(subject.run(&data, &order));
        }
    }
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
    let mut row = Row::new(operation.name, Sense::Less, &names, &figures);
    row.entries = Some(operation.entries);
    row.target = operation
        .target
        .map(|set| Target::new(set.ours, set.rivals, set.linux));
    Some(row)
}

fn bytes(options: &Options) -> Vec<Row> {
    const ENTRIES: u64 = 100_000;
    let mut rows = Vec::new();
    for (name, random, target) in [
        (
            "memory, appended, 100k",
            false,
            Target::new(26.0, &[("BTreeMap", 49.0)], Some(27.0)),
        ),
        (
            "memory, random order, 100k",
            true,
            Target::new(30.0, &[("BTreeMap", 39.0)], Some(32.0)),
        ),
    ] {
        if !options.wants(name) {
            continue;
        }
        let (names, figures): (Vec<_>, Vec<_>) = memory::bytes(ENTRIES, random)
            .into_iter()
            .map(|(name, bytes)| (name, vec![bytes]))
            .unzip();
        let mut row = Row::new(name, Sense::Less, &names, &figures);
        row.unit = Some("bytes an entry".to_owned());
        row.target = Some(target);
        rows.push(row);
    }
    rows
}
