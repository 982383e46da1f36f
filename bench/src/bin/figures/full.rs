//! The table of all operations, for those who work on the tree: with the best of the rivals, and what was to be reached.

use std::fmt::Write as _;

use samara_bench::{Report, Sense};

use crate::{STANDARD, digits, linux, reached};

/// The table of operations: ours, the standard map's, the best of the others, and what was to be reached.
pub(crate) fn operations(report: &Report) -> String {
    let mut text = String::from(
        "| operation | maple-tree | `BTreeMap` | best other | ours / `BTreeMap` | Linux's / `BTreeMap` | ours / best | target reached |\n|---|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for row in &report.rows {
        let Some(ours) = row.samples.first() else {
            continue;
        };
        let unit = row.unit.as_deref().unwrap_or(&report.unit);
        let standard = row
            .samples
            .iter()
            .position(|sample| STANDARD.contains(&sample.subject.as_str()));
        let best = (1..row.samples.len())
            .filter(|i| Some(*i) != standard && !row.samples[*i].subject.starts_with("maple-tree"))
            .min_by(|a, b| {
                let of = |i: usize| row.samples[i].best(row.sense);
                match row.sense {
                    Sense::Less => of(*a).total_cmp(&of(*b)),
                    Sense::More => of(*b).total_cmp(&of(*a)),
                }
            });
        let figure = |i: Option<usize>, named: bool| {
            i.map_or_else(
                || "–".to_owned(),
                |i| {
                    let sample = &row.samples[i];
                    let figure = digits(sample.best(row.sense));
                    if named {
                        format!("{} {figure}", sample.subject)
                    } else {
                        figure
                    }
                },
            )
        };
        let ratio = |i: Option<usize>| {
            i.and_then(|i| row.ratios.get(i - 1))
                .map_or_else(|| "–".to_owned(), |ratio| compared(*ratio, row.sense))
        };
        let _ = writeln!(
            text,
            "| {} | {} {unit} | {} | {} | {} | {} | {} | {} |",
            row.name,
            digits(ours.best(row.sense)),
            figure(standard, false),
            figure(best, true),
            ratio(standard),
            linux(row).map_or_else(|| "–".to_owned(), |ratio| compared(ratio, row.sense)),
            ratio(best),
            reached(row),
        );
    }
    text
}

/// Bold where it loses.
fn compared(ratio: f64, sense: Sense) -> String {
    let loses = match sense {
        Sense::Less => ratio > 1.0,
        Sense::More => ratio < 1.0,
    };
    let text = if ratio < 10.0 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.0}")
    };
    if loses { format!("**{text}**") } else { text }
}
