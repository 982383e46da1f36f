//! The C interface's table: operations measured from C, the standard map of the same run, and Linux's figures.

use std::fmt::Write as _;

use samara_bench::{Report, Row};

use crate::short::LINUX;
use crate::{digits, reached};

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

/// Returns the time of the standard map here, divided by its time on the machine of Linux's
/// figures.
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
