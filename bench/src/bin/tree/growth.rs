//! Each operation from a hundred entries up to ten millions.

use samara_bench::peers::Kind;
use samara_bench::{Options, Report, Row, Sense};

use crate::work::{Data, subjects};

/// The drawn lines: name, operation, and `true` if the figure is divided by the entries.
const OPERATIONS: &[(&str, Kind, bool)] = &[
    ("get", Kind::Get, false),
    ("get 16 at once, a key", Kind::GetMany, false),
    ("get, miss", Kind::Miss, false),
    ("iterate, an entry", Kind::Iterate, false),
    ("append", Kind::Append, false),
    ("from a sorted iterator, an entry", Kind::FromSorted, false),
    ("random insert", Kind::Insert, false),
    ("random erase", Kind::Erase, false),
    ("exact replace", Kind::Replace, false),
    ("erase + store", Kind::Pair, false),
    ("overwrite of 1-8 entries", Kind::Overwrite, false),
    ("gap of 1 page, up", Kind::GapUp(1), false),
    ("gap of 4,096 pages, down", Kind::GapDown(4096), false),
    ("snapshot", Kind::Snapshot, false),
    ("snapshot, store, drop it", Kind::Versions, false),
    ("duplicate, an entry", Kind::Duplicate, true),
    ("destroy, an entry", Kind::Destroy, true),
];

/// Above this only the peers that take the least time and memory.
const ALL_UP_TO: u64 = 1_000_000;
const CHEAP: [&str; 4] = [
    "maple-tree",
    "maple-tree, snapshots",
    "BTreeMap",
    "sorted Vec",
];
/// A scan for a free range of this many pages takes too long in maps above this size that have no other way.
const SCANS_UP_TO: u64 = 100_000;

/// A row for each operation and size.
pub(crate) fn report(options: &Options, sizes: &[u64], quick: bool) -> Report {
    let mut report = Report::new("Growth of the maple tree's operations", "ns");
    let calls = if quick { 2_000 } else { 100_000 };
    for &n in sizes {
        let data = Data::new(n, calls);
        for &(name, kind, whole) in OPERATIONS {
            let title = format!("{name}, {n}");
            if !options.wants(&title) {
                continue;
            }
            let wanted = |subject: &str| {
                subject != "one insertion an entry"
                    && (n <= ALL_UP_TO || CHEAP.contains(&subject))
                    && !(subject == "BTreeMap"
                        && matches!(kind, Kind::GapUp(size) | Kind::GapDown(size) if size > 1)
                        && n > SCANS_UP_TO)
            };
            let mut subjects = subjects(kind, &wanted);
            let mut figures = vec![Vec::new(); subjects.len()];
            // A run on a map of ten millions takes seconds, and is long enough to be even.
            let runs = if n > ALL_UP_TO { 1 } else { options.runs };
            for run in 0..runs {
                let order = data.order(kind, run);
                for (subject, figures) in subjects.iter_mut().zip(&mut figures) {
                    let figure = subject.run(&data, &order);
                    figures.push(if whole { figure / n as f64 } else { figure });
                }
            }
            let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
            let mut row = Row::new(name, Sense::Less, &names, &figures);
            row.entries = Some(n);
            report.rows.push(row);
        }
    }
    report
}
