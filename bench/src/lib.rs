//! Shared by all benchmarks: options, repeated runs, peers, and a report as a table or as JSON.
//!
//! One binary a subject under `src/bin/`. The machine is noisy: every figure is the minimum and the median of at least
//! seven runs, peers take turns within each run, and what is quoted is the ratio to a peer of the same run.

pub mod heap;
mod options;
pub mod peers;
mod report;
pub mod shared;

pub use options::{Options, pin};
pub use report::{Limit, Report, Row, Sample, Sense, Target};
pub use samara_bench_data::{Item, Random, Ranges};
