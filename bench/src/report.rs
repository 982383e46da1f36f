//! Figures of several runs, what they are to reach, and how they are shown.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

/// The figures of the runs of one subject, in the unit that the row states.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The measured subject.
    pub subject: String,
    /// The smallest figure.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest one.
    pub max: f64,
    /// The number of counted runs.
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

    /// The best of the runs.
    pub fn best(&self, sense: Sense) -> f64 {
        match sense {
            Sense::Less => self.min,
            Sense::More => self.max,
        }
    }
}

/// Which figures are better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sense {
    /// Smaller ones: times, bytes.
    #[default]
    Less,
    /// Larger ones: operations a second.
    More,
}

/// The target as a multiple of a rival's figure in the same run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Limit {
    /// The rival.
    pub rival: String,
    /// Ours divided by the rival's: at most this, or (of figures that should be large) at least.
    pub ratio: f64,
    /// The rival's figure on the machine of the target.
    pub figure: f64,
}

/// The target of a row.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Target {
    /// The figure on the machine on which the target was set.
    pub figure: f64,
    /// Relative to each rival that was measured there. Without one, `figure` counts, times how much slower this machine is.
    pub limits: Vec<Limit>,
    /// Linux's own tree there.
    pub linux: Option<f64>,
    /// `true` if all of it is reached. Set by [`Report::judge`].
    pub met: Option<bool>,
}

impl Target {
    /// A target given as figures: ours, and those of rivals on the same machine.
    pub fn new(figure: f64, rivals: &[(&str, f64)], linux: Option<f64>) -> Self {
        Self {
            figure,
            limits: rivals
                .iter()
                .map(|&(rival, its)| Limit {
                    rival: rival.to_owned(),
                    ratio: figure / its,
                    figure: its,
                })
                .collect(),
            linux,
            met: None,
        }
    }
}

/// One operation on one set of data: all subjects side by side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The operation and its data, for example `get 100k`.
    pub name: String,
    /// Unit of the figures, where it is not the report's.
    pub unit: Option<String>,
    /// Entries, in rows that show growth.
    pub entries: Option<u64>,
    /// Which figures are better.
    pub sense: Sense,
    /// The first one is ours; ratios are of it to each of the others.
    pub samples: Vec<Sample>,
    /// Best of ours divided by best of the other, one for each sample after the first.
    pub ratios: Vec<f64>,
    /// Median over the runs of ours divided by the other's in the same run.
    pub median_ratios: Vec<f64>,
    /// The target.
    pub target: Option<Target>,
}

impl Row {
    /// A row out of the figures of each subject, run by run: `figures[s][r]` is subject `s` in run `r`.
    pub fn new(name: &str, sense: Sense, subjects: &[&str], figures: &[Vec<f64>]) -> Self {
        let samples: Vec<Sample> = subjects
            .iter()
            .zip(figures)
            .map(|(subject, runs)| Sample::of(subject, runs))
            .collect();
        let ours = samples.first().map_or(0.0, |sample| sample.best(sense));
        let ratios = samples
            .iter()
            .skip(1)
            .map(|other| ours / other.best(sense))
            .collect();
        let in_each_run = |other: &Vec<f64>| {
            let pairs: Vec<f64> = figures
                .first()
                .into_iter()
                .flatten()
                .zip(other)
                .map(|(ours, theirs)| ours / theirs)
                .collect();
            Sample::of("", &pairs).median
        };
        let median_ratios = figures.iter().skip(1).map(in_each_run).collect();
        Self {
            name: name.to_owned(),
            unit: None,
            entries: None,
            sense,
            samples,
            ratios,
            median_ratios,
            target: None,
        }
    }

    /// The figures of a subject.
    pub fn sample(&self, subject: &str) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.subject == subject)
    }
}

/// A named set of rows in one unit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The measured subject.
    pub title: String,
    /// Unit of all figures, for example `ns`.
    pub unit: String,
    /// The slowdown of this machine compared with the one of the targets: the median over the
    /// rivals' figures.
    pub slower: Option<f64>,
    /// The rows in the order of measurement.
    pub rows: Vec<Row>,
}

impl Report {
    /// An empty report.
    pub fn new(title: &str, unit: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            slower: None,
            rows: Vec::new(),
        }
    }

    /// Adds a row from the figures of each subject, run by run: `figures[s][r]` is subject `s` in run `r`.
    pub fn add(&mut self, name: &str, subjects: &[&str], figures: &[Vec<f64>]) {
        self.rows
            .push(Row::new(name, Sense::Less, subjects, figures));
    }

    /// Decides which targets are met, once all rows are there.
    pub fn judge(&mut self) {
        let mut factors: Vec<f64> = Vec::new();
        for row in &self.rows {
            // Throughput and bytes do not tell how fast the machine is.
            if row.sense == Sense::More || row.unit.is_some() {
                continue;
            }
            for limit in row.target.iter().flat_map(|target| &target.limits) {
                if let Some(sample) = row.sample(&limit.rival) {
                    factors.push(sample.min / limit.figure);
                }
            }
        }
        if !factors.is_empty() {
            self.slower = Some(Sample::of("", &factors).median);
        }
        let slower = self.slower.unwrap_or(1.0);
        for row in &mut self.rows {
            let sense = row.sense;
            let holds = |figure: f64, limit: f64| match sense {
                Sense::Less => figure <= limit,
                Sense::More => figure >= limit,
            };
            let Some(ours) = row.samples.first().map(|sample| sample.best(sense)) else {
                continue;
            };
            let others: Vec<(String, f64)> = row
                .samples
                .iter()
                .map(|sample| (sample.subject.clone(), sample.best(sense)))
                .collect();
            let Some(target) = &mut row.target else {
                continue;
            };
            let met = if target.limits.is_empty() {
                let scale = if row.unit.is_some() { 1.0 } else { slower };
                holds(ours, target.figure * scale)
            } else {
                target.limits.iter().all(|limit| {
                    others
                        .iter()
                        .find(|(name, _)| *name == limit.rival)
                        .is_none_or(|(_, its)| holds(ours / its, limit.ratio))
                })
            };
            target.met = Some(met);
        }
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
        let targets = self.rows.iter().any(|row| row.target.is_some());
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        let mut header = vec!["row", "subject", "min", "median", "max", "runs"];
        header.extend(["ours / it", "median ratio"]);
        if targets {
            header.extend(["target", "met"]);
        }
        table.set_header(header);
        for row in &self.rows {
            for (i, sample) in row.samples.iter().enumerate() {
                let name = match (i, &row.unit) {
                    (0, None) => row.name.clone(),
                    (0, Some(unit)) => format!("{} ({unit})", row.name),
                    _ => String::new(),
                };
                let other = i.checked_sub(1);
                let ratio = |list: &[f64]| {
                    other
                        .and_then(|i| list.get(i))
                        .map_or_else(String::new, |ratio| format!("{ratio:.2}"))
                };
                let mut cells = vec![
                    name,
                    sample.subject.clone(),
                    format!("{:.2}", sample.min),
                    format!("{:.2}", sample.median),
                    format!("{:.2}", sample.max),
                    sample.runs.to_string(),
                    ratio(&row.ratios),
                    ratio(&row.median_ratios),
                ];
                if targets {
                    cells.extend(self.target_cells(row, i));
                }
                table.add_row(cells);
            }
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
        if let Some(slower) = self.slower {
            println!(
                "This machine takes {slower:.2} times what the targets' machine took (median of the rivals); targets without a rival are scaled by that."
            );
        }
        let judged: Vec<bool> = self
            .rows
            .iter()
            .filter_map(|row| row.target.as_ref()?.met)
            .collect();
        if !judged.is_empty() {
            let met = judged.iter().filter(|met| **met).count();
            println!("{met} of {} targets met.", judged.len());
        }
    }

    /// The columns `target` and `met` of the line of subject `i`.
    fn target_cells(&self, row: &Row, i: usize) -> [String; 2] {
        let Some(target) = &row.target else {
            return [String::new(), String::new()];
        };
        let sign = match row.sense {
            Sense::Less => '≤',
            Sense::More => '≥',
        };
        if i == 0 {
            let text = if target.limits.is_empty() {
                format!("{sign} {}", target.figure)
            } else {
                String::new()
            };
            let met = match target.met {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            return [text, met.to_owned()];
        }
        let limit = row
            .samples
            .get(i)
            .and_then(|sample| target.limits.iter().find(|l| l.rival == sample.subject));
        let text = limit.map_or_else(String::new, |limit| format!("{sign} {:.2}", limit.ratio));
        [text, String::new()]
    }
}
