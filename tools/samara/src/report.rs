//! The summary of a trace or a replay: text for a person, JSON for programs.

mod json;
mod text;

use std::time::Duration;

use samara_tracer::kernel::Kernel;

pub(crate) use json::write_json;
pub(crate) use text::text;

/// The run that a summary describes.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) words: &'a [String],
    pub(crate) kernel: &'a Kernel,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) elapsed: Duration,
    /// Size of the written record in bytes.
    pub(crate) recorded: Option<u64>,
    pub(crate) replay: Option<Replay>,
}

impl<'a> Subject<'a> {
    /// Returns one of which nothing else is known yet.
    pub(crate) fn of(words: &'a [String], kernel: &'a Kernel) -> Self {
        Self {
            words,
            kernel,
            exit_code: None,
            signal: None,
            elapsed: Duration::ZERO,
            recorded: None,
            replay: None,
        }
    }
}

/// Figures of a replay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replay {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) reading: Duration,
    pub(crate) performing: Duration,
    /// Processor time of performing the records.
    pub(crate) processor: Duration,
    pub(crate) compared: bool,
    pub(crate) skipped: u64,
}

/// Returns calls per second.
fn rate(calls: u64, time: Duration) -> f64 {
    calls as f64 / time.as_secs_f64().max(1e-9)
}
