//! The C interface: the operations that dominate C programs with Linux's tree, with and without
//! hooks, compared with `BTreeMap` in the same run
//! and with the figures of Linux's own tree.
//!
//! Linux's figures are data, not measured here: its source compiled in user space with a fast node pool, nanoseconds on the machine of the
//! [table's](crate::table) targets or one like it. `BTreeMap`'s figures there are known for some rows; the median of how much longer it takes here
//! is the factor by which Linux's are multiplied before ours are compared with them.

use std::hint::black_box;

use samara_bench::peers::{Capi, Kind, set_hooks};
use samara_bench::{Options, Report, Row, Sample, Sense, Target};

use crate::work::{Data, IN_CACHE, Order, Subject, per, subjects, whole};

/// The name of the row of Linux's figures.
const LINUX: &str = "Linux's tree, elsewhere";

struct Operation {
    name: &'static str,
    kind: Kind,
    entries: u64,
    /// Linux's tree there.
    linux: f64,
    /// Ours divided by that: at most this, with hooks and without.
    target: f64,
    /// `BTreeMap` there.
    standard: Option<f64>,
}

const fn row(
    name: &'static str,
    kind: Kind,
    entries: u64,
    linux: f64,
    target: f64,
    standard: Option<f64>,
) -> Operation {
    Operation {
        name,
        kind,
        entries,
        linux,
        target,
        standard,
    }
}

const K: u64 = 1_000;

#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    row("mtree_dup 134", Kind::Duplicate, 134, 435.0, 0.45, Some(400.0)),
    row("mtree_dup 4,023", Kind::Duplicate, 4_023, 14_820.0, 0.65, Some(12_900.0)),
    row("__mt_destroy 134", Kind::Destroy, 134, 52.0, 1.0, Some(234.0)),
    row("__mt_destroy 4,023", Kind::Destroy, 4_023, 2_110.0, 1.0, None),
    row("mtree_dup, mas_for_each, mas_store each, 134", Kind::Renew, 134, 3_982.0, 0.3, None),
    row("mtree_dup, mas_for_each, mas_store each, 4,023", Kind::Renew, 4_023, 119_895.0, 0.3, None),
    row("mas_for_each 1k, an entry", Kind::Iterate, K, 10.4, 0.5, Some(1.3)),
    row("mas_for_each 100k, an entry", Kind::Iterate, 100 * K, 16.7, 0.5, None),
    row("mas_empty_area of 4,096 pages, 100k", Kind::GapUp(4096), 100 * K, 131.0, 0.6, Some(3_650.0)),
    row("mas_empty_area_rev of 4,096 pages, 100k", Kind::GapDown(4096), 100 * K, 131.0, 0.6, Some(3_650.0)),
    row("append by mas_store_gfp, 1k", Kind::Append, K, 241.0, 0.3, Some(20.0)),
    row("exact replace by mas_store, 1k", Kind::Replace, K, 93.0, 0.4, None),
];

/// All rows: a program without hooks, one with hooks, `BTreeMap`, Linux's tree.
pub(crate) fn report(options: &Options, quick: bool) -> Report {
    let mut report = Report::new("The C interface of the maple tree", "ns");
    let wanted = OPERATIONS.iter().filter(|row| options.wants(row.name));
    report.rows = wanted.map(|row| measure(row, options, quick)).collect();
    report.judge();
    // Both sorts of programs are to reach the target.
    let slower = report.slower.unwrap_or(1.0);
    for row in &mut report.rows {
        if let ([without, with, ..], Some(target)) = (&row.samples[..], &mut row.target) {
            target.met = Some(without.min.max(with.min) <= target.figure * slower);
        }
    }
    report
}

fn measure(operation: &Operation, options: &Options, quick: bool) -> Row {
    let calls = if quick { 20_000 } else { 100_000 };
    let data = Data::new(operation.entries, calls);
    let of = |hooked| -> Box<dyn Subject> {
        Box::new(Program {
            kind: operation.kind,
            hooked,
        })
    };
    let mut all = vec![of(false), of(true)];
    all.extend(subjects(operation.kind, &|name| name == "BTreeMap"));
    let mut figures = vec![Vec::new(); all.len()];
    for run in 0..options.runs {
        let order = data.order(operation.kind, run);
        for (subject, figures) in all.iter_mut().zip(&mut figures) {
            figures.push(subject.run(&data, &order));
        }
    }
    let names: Vec<&str> = all.iter().map(|subject| subject.name()).collect();
    let mut row = Row::new(operation.name, Sense::Less, &names, &figures);
    row.entries = Some(operation.entries);
    let limit = operation.linux * operation.target;
    let standard = operation.standard.map(|figure| ("BTreeMap", figure));
    let standard = standard.as_slice();
    row.target = Some(Target::new(limit, standard, Some(operation.linux)));
    row.ratios.push(row.samples[0].min / operation.linux);
    row.median_ratios
        .push(row.samples[0].median / operation.linux);
    row.samples.push(Sample {
        subject: LINUX.to_owned(),
        min: operation.linux,
        median: operation.linux,
        max: operation.linux,
        runs: 0,
    });
    row
}

/// A program in C. It begins anew with each run, since its hooks are those of the whole process.
struct Program {
    kind: Kind,
    hooked: bool,
}

impl Subject for Program {
    fn name(&self) -> &'static str {
        if self.hooked {
            "maple-tree, C, hooked"
        } else {
            "maple-tree, C"
        }
    }

    fn run(&mut self, data: &Data, order: &Order) -> f64 {
        // SAFETY: each run destroys its trees, and there is one thread.
        unsafe { set_hooks(self.hooked) };
        let figure = run(self.kind, data, order);
        // SAFETY: as above.
        unsafe { set_hooks(false) };
        figure
    }
}

fn run(kind: Kind, data: &Data, order: &Order) -> f64 {
    let items = &data.ranges.items;
    let n = items.len();
    let keys = &order.keys;
    let mut tree = Capi::default();
    if kind == Kind::Append {
        let repeats = data.repeats(n);
        let mut time = 0.0;
        for _ in 0..repeats {
            time += whole(n, || tree.fill(items));
            tree.destroy();
        }
        return time / (repeats * n) as f64;
    }
    tree.fill(items);
    match kind {
        Kind::Iterate => {
            let repeats = data.repeats(n);
            per(n * repeats, || {
                for _ in 0..repeats {
                    black_box(black_box(&tree).sum());
                }
            })
        }
        Kind::GapUp(size) => per(keys.len(), || {
            let sum = keys.iter().fold(0_u64, |sum, &key| {
                sum.wrapping_add(tree.gap_up(key, size).unwrap_or(1))
            });
            black_box(sum);
        }),
        Kind::GapDown(size) => per(keys.len(), || {
            let sum = keys.iter().fold(0_u64, |sum, &key| {
                sum.wrapping_add(tree.gap_down(key, size).unwrap_or(1))
            });
            black_box(sum);
        }),
        Kind::Replace => {
            let repeats = data.repeats(n);
            per(n * repeats, || {
                for _ in 0..repeats {
                    tree.replace(&order.shuffled);
                }
            })
        }
        Kind::Duplicate | Kind::Renew | Kind::Destroy => {
            let batch = (IN_CACHE / n).max(1);
            let batches = data.repeats(n * batch);
            let mut copies: Vec<Capi> = (0..batch).map(|_| Capi::default()).collect();
            let (mut making, mut dropping) = (0.0, 0.0);
            for _ in 0..batches {
                making += whole(n, || {
                    for copy in &mut copies {
                        if kind == Kind::Renew {
                            tree.fork(copy);
                        } else {
                            tree.duplicate(copy);
                        }
                    }
                });
                dropping += whole(n, || copies.iter_mut().for_each(Capi::destroy));
            }
            let time = if kind == Kind::Destroy {
                dropping
            } else {
                making
            };
            time / (batches * batch) as f64
        }
        _ => 0.0,
    }
}
