//! What all benchmarks share: options, repeated runs, and a report as a table or as JSON.
//!
//! One binary a subject under `src/bin/`. The machine is noisy: every figure is the minimum and the median of at least
//! seven runs, peers take turns within each run, and what is quoted is the ratio to a peer of the same run.

mod data;
mod options;
pub mod peers;
mod report;

pub use data::Random;
pub use options::Options;
pub use report::{Report, Row, Sample};
