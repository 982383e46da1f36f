//! The short table for newcomers: some operations of the tree and of well-known maps.

use std::fmt::Write as _;

use samara_bench::{Report, Sense};

use crate::{STANDARD, digits, linux};

/// The name of Linux's tree in the table and the picture.
pub(crate) const LINUX: &str = "Linux's tree";

/// The rows that are shown, and what they are called there. Those in which the tree loses are among them.
const CHOSEN: [(&str, &str); 16] = [
    ("get 1k", "look up, 1,000 entries"),
    ("get 1M", "look up, a million entries"),
    ("iterate 1k, an entry", "iterate, 1,000 entries, each"),
    ("iterate 1M, an entry", "iterate, a million entries, each"),
    ("append 100k", "append, up to 100,000 entries"),
    ("random insert 100k", "insert in random order"),
    ("random erase 100k", "erase in random order"),
    ("overwrite of 1-8 entries, 100k", "overwrite 1 to 8 entries"),
    ("gap of 1 page, up, 100k", "find the lowest free page"),
    ("gap of 4,096 pages, up, 100k", "find 4,096 free pages"),
    ("duplicate 134", "duplicate, 134 entries"),
    ("duplicate 100k", "duplicate, 100,000 entries"),
    (
        "memory, random order, 100k",
        "memory, filled in random order",
    ),
    ("2 readers", "look-ups, two readers"),
    (
        "1 reader beside 1 writer, look-ups",
        "look-ups, concurrent with a writer",
    ),
    (
        "1 reader beside 1 writer, erase + store pairs",
        "writes, concurrent with a reader",
    ),
];

/// One operation: our figure, and how many times worse each of the others is (below 1: better).
pub(crate) struct Line {
    pub(crate) label: &'static str,
    ours: String,
    pub(crate) standard: f64,
    pub(crate) rangemap: Option<f64>,
    pub(crate) linux: Option<f64>,
}

/// The chosen rows, as far as they were measured.
pub(crate) fn rows(report: &Report) -> Vec<Line> {
    CHOSEN
        .iter()
        .filter_map(|&(name, label)| {
            let row = report.rows.iter().find(|row| row.name == name)?;
            let ours = row.samples.first()?.best(row.sense);
            let worse = |subject: &str| {
                let its = row.sample(subject)?.best(row.sense);
                Some(times(its, ours, row.sense))
            };
            let standard = STANDARD.iter().find_map(|subject| worse(subject))?;
            let unit = row.unit.as_deref().unwrap_or(&report.unit);
            Some(Line {
                label,
                ours: format!("{} {unit}", digits(ours)),
                standard,
                rangemap: worse("rangemap"),
                // Linux's tree was measured elsewhere, together with the same standard map.
                linux: linux(row).map(|ratio| standard * times(ratio, 1.0, row.sense)),
            })
        })
        .collect()
}

/// Returns the factor by which `its` is worse than `ours`.
fn times(its: f64, ours: f64, sense: Sense) -> f64 {
    match sense {
        Sense::Less => its / ours,
        Sense::More => ours / its,
    }
}

/// The table as text.
pub(crate) fn table(report: &Report) -> String {
    let mut text =
        format!("| | maple-tree | `BTreeMap` | `rangemap` | {LINUX} |\n|---|--:|--:|--:|--:|\n");
    for line in rows(report) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            line.label,
            line.ours,
            cell(Some(line.standard)),
            cell(line.rangemap),
            cell(line.linux),
        );
    }
    text
}

/// Bold where the other is better.
pub(crate) fn cell(worse: Option<f64>) -> String {
    worse.map_or_else(
        || "–".to_owned(),
        |worse| {
            let text = if worse < 10.0 {
                format!("× {worse:.2}")
            } else {
                format!("× {worse:.0}")
            };
            if worse < 0.995 {
                format!("**{text}**")
            } else {
                text
            }
        },
    )
}
