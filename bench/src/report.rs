//! Figures of several runs, and how they are shown.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The figures of the runs of one subject, in the unit that the report states.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// Who was measured.
    pub subject: String,
    /// The smallest figure.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest one.
    pub max: f64,
    /// How many runs were counted.
    pub runs: usize,
}

impl Sample {
    /// Summarises the figures of the runs; an empty list gives zeros.
    pub fn of(subject: &str, figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or_default();
        Self {
            subject: subject.to_owned(),
            min: at(0),
            median: at(sorted.len() / 2),
            max: at(sorted.len().saturating_sub(1)),
            runs: sorted.len(),
        }
    }
}

/// One operation on one set of data: all subjects side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The operation and its data, for example `get 100k`.
    pub name: String,
    /// The first one is ours; ratios are of it to each of the others.
    pub samples: Vec<Sample>,
    /// Median over the runs of ours divided by the other's in the same run, one for each sample after the first.
    pub ratios: Vec<f64>,
}

/// A named set of rows in one unit.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was measured.
    pub title: String,
    /// Unit of all figures, for example `ns`.
    pub unit: String,
    /// The rows in the order of measurement.
    pub rows: Vec<Row>,
}

impl Report {
    /// An empty report.
    pub fn new(title: &str, unit: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            rows: Vec::new(),
        }
    }

    /// Adds a row from the figures of each subject, run by run: `figures[s][r]` is subject `s` in run `r`.
    pub fn add(&mut self, name: &str, subjects: &[&str], figures: &[Vec<f64>]) {
        let samples = subjects
            .iter()
            .zip(figures)
            .map(|(subject, runs)| Sample::of(subject, runs))
            .collect();
        let ratio = |other: &Vec<f64>| {
            let pairs: Vec<f64> = figures
                .first()
                .into_iter()
                .flatten()
                .zip(other)
                .map(|(ours, theirs)| ours / theirs)
                .collect();
            Sample::of("", &pairs).median
        };
        let ratios = figures.iter().skip(1).map(ratio).collect();
        self.rows.push(Row {
            name: name.to_owned(),
            samples,
            ratios,
        });
    }

    /// Prints the report to standard output, as JSON or as a table.
    pub fn print(&self, json: bool) {
        if json {
            match serde_json::to_string_pretty(self) {
                Ok(text) => println!("{text}"),
                Err(error) => eprintln!("cannot print the report as JSON: {error}"),
            }
            return;
        }
        println!("{} ({})", self.title, self.unit);
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header([
            "row",
            "subject",
            "min",
            "median",
            "max",
            "runs",
            "ours / it",
        ]);
        for row in &self.rows {
            for (i, sample) in row.samples.iter().enumerate() {
                let name = if i == 0 { row.name.as_str() } else { "" };
                let ratio = i.checked_sub(1).and_then(|i| row.ratios.get(i));
                table.add_row([
                    name.to_owned(),
                    sample.subject.clone(),
                    format!("{:.2}", sample.min),
                    format!("{:.2}", sample.median),
                    format!("{:.2}", sample.max),
                    sample.runs.to_string(),
                    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                ]);
            }
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
    }
}
