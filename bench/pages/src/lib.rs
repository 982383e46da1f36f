//! The figures as they are written down: for this benchmark's table, and for the pictures and texts that are made of them.

use serde::{Deserialize, Serialize};

/// The figures of one run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// A row for each operation.
    pub rows: Vec<Row>,
    /// The projection of each to more processors.
    pub projections: Vec<Projection>,
    /// The machine's load during the run, this program included. Above the number of processors,
    /// rows of several threads mean nothing.
    pub load: f64,
}

/// One operation: ours and the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The operation and its data.
    pub name: String,
    /// The unit of the figures.
    pub unit: String,
    /// `true` if larger figures are better.
    pub more: bool,
    /// The first one is ours.
    pub samples: Vec<Sample>,
    /// The target.
    pub target: Option<Target>,
}

/// The figures of one subject over the runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// The measured subject.
    pub subject: String,
    /// The median of the runs.
    pub median: f64,
    /// The best of them.
    pub best: f64,
    /// Median over the runs of ours divided by this one's in the same run.
    pub ratio: f64,
}

/// The target of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// The limit: of the figure, or of ours divided by that of `beside`.
    pub limit: f64,
    /// The subject that it is relative to.
    pub beside: Option<String>,
}

/// One operation on more and more processors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Projection {
    /// The operation.
    pub name: String,
    /// Nanoseconds of one operation on one processor.
    pub alone: f64,
    /// Nanoseconds of it that no two processors can spend at once.
    pub serial: f64,
    /// Additional nanoseconds while another processor does the same.
    pub shared: f64,
    /// Processors, and operations a second in millions.
    pub points: Vec<(u32, f64)>,
    /// The same as measured here.
    pub measured: Vec<(u32, f64)>,
}

impl Row {
    /// A row out of the figures run by run: `figures[s][r]` is subject `s` in run `r`.
    pub fn new(name: &str, unit: &str, subjects: &[&str], figures: &[Vec<f64>]) -> Self {
        let samples = subjects.iter().zip(figures).map(|(subject, runs)| {
            let ratios: Vec<f64> = figures[0].iter().zip(runs).map(|(a, b)| a / b).collect();
            Sample {
                subject: (*subject).to_owned(),
                median: median(runs),
                best: runs.iter().copied().fold(f64::INFINITY, f64::min),
                ratio: median(&ratios),
            }
        });
        Row {
            name: name.to_owned(),
            unit: unit.to_owned(),
            more: false,
            samples: samples.collect(),
            target: None,
        }
    }

    /// Larger figures are better.
    #[must_use]
    pub fn more(mut self, figures: &[Vec<f64>]) -> Self {
        self.more = true;
        for (sample, runs) in self.samples.iter_mut().zip(figures) {
            sample.best = runs.iter().copied().fold(0.0, f64::max);
        }
        self
    }

    /// Sets the target: the median is at most (or at least) this.
    #[must_use]
    pub fn limit(mut self, limit: f64) -> Self {
        let beside = None;
        self.target = Some(Target { limit, beside });
        self
    }

    /// Sets the target: ours divided by that of another is at most (or at least) this.
    #[must_use]
    pub fn beside(mut self, beside: &str, limit: f64) -> Self {
        let beside = Some(beside.to_owned());
        self.target = Some(Target { limit, beside });
        self
    }

    /// Returns `true` if the target is met.
    pub fn met(&self) -> Option<bool> {
        let target = self.target.as_ref()?;
        let figure = match &target.beside {
            None => self.samples.first()?.median,
            Some(beside) => self.samples.iter().find(|s| s.subject == *beside)?.ratio,
        };
        Some(if self.more {
            figure >= target.limit
        } else {
            figure <= target.limit
        })
    }
}

/// A ratio with two decimals, and with more where only zeroes would be seen.
pub fn ratio(ratio: f64) -> String {
    let decimals = (-ratio.log10()).ceil().clamp(2.0, 9.0) as usize;
    format!("× {ratio:.decimals$}")
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_are_seen() {
        for (figure, text) in [
            (0.000_52, "× 0.0005"),
            (0.004_7, "× 0.005"),
            (0.01, "× 0.01"),
            (0.163, "× 0.16"),
            (1.0, "× 1.00"),
            (417.5, "× 417.50"),
        ] {
            assert_eq!(ratio(figure), text);
        }
    }
}
