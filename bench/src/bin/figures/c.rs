//! The C interface's tables: the operations that were measured from C, beside the standard map of the same run and Linux's figures.

use std::fmt::Write as _;

use samara_bench::{Report, Row};

use crate::short::{LINUX, cell};
use crate::{digits, reached};

/// The rows that the short table shows, and what they are called there.
const CHOSEN: [(&str, &str); 8] = [
    ("mtree_dup 134", "`mtree_dup`, 134 entries"),
    ("mtree_dup 4,023", "`mtree_dup`, 4,023 entries"),
    ("__mt_destroy 4,023", "`__mt_destroy`, 4,023 entries"),
    (
        "mtree_dup, mas_for_each, mas_store each, 134",
        "fork: `mtree_dup`, `mas_store` on each of 134",
    ),
    (
        "mas_for_each 1k, an entry",
        "`mas_for_each`, 1,000 entries, each",
    ),
    (
        "mas_empty_area of 4,096 pages, 100k",
        "`mas_empty_area`, 4,096 pages",
    ),
    ("append by mas_store_gfp, 1k", "append by `mas_store_gfp`"),
    (
        "exact replace by mas_store, 1k",
        "replace an entry by `mas_store`",
    ),
];

/// Our figures without hooks and with them, the standard map's, and Linux's as they would be here.
struct Figures {
    ours: [f64; 2],
    standard: f64,
    linux: f64,
}

impl Figures {
    fn of(report: &Report, row: &Row) -> Option<Self> {
        Some(Self {
            ours: [row.samples.first()?.min, row.samples.get(1)?.min],
            standard: row.sample("BTreeMap")?.min,
            linux: row.target.as_ref()?.linux? * slower(report),
        })
    }
}

/// How much longer the standard map takes here than where Linux's tree was measured.
fn slower(report: &Report) -> f64 {
    report.slower.unwrap_or(1.0)
}

/// All rows, with what was to be reached.
pub(crate) fn operations(report: &Report) -> String {
    let mut text = format!(
        "| operation | without hooks | with hooks | `BTreeMap` | {LINUX} | without hooks / Linux's | with hooks / Linux's | target | reached |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n"
    );
    for row in &report.rows {
        let Some(Figures {
            ours: [without, with],
            standard,
            linux,
        }) = Figures::of(report, row)
        else {
            continue;
        };
        let limit = row
            .target
            .as_ref()
            .map_or(0.0, |target| target.figure * slower(report));
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {} | {} | {:.2} | {:.2} | ≤ {:.2} | {} |",
            row.name.replace("__", "\\_\\_"),
            digits(without),
            report.unit,
            digits(with),
            digits(standard),
            digits(linux),
            without / linux,
            with / linux,
            limit / linux,
            reached(row),
        );
    }
    text
}

/// The chosen rows: the time without hooks, and how many times as much the others take.
pub(crate) fn table(report: &Report) -> String {
    let mut text = format!(
        "| from C | without hooks | with hooks | `BTreeMap` | {LINUX} |\n|---|--:|--:|--:|--:|\n"
    );
    for (name, label) in CHOSEN {
        let row = report.rows.iter().find(|row| row.name == name);
        let Some(Figures {
            ours: [without, with],
            standard,
            linux,
        }) = row.and_then(|row| Figures::of(report, row))
        else {
            continue;
        };
        let times = |its: f64| cell(Some(its / without));
        let _ = writeln!(
            text,
            "| {label} | {} {} | {} | {} | {} |",
            digits(without),
            report.unit,
            times(with),
            times(standard),
            times(linux),
        );
    }
    text
}
