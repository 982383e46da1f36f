//! The command line that every benchmark understands.

use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Options common to all benchmarks: flatten them into a binary's own with `#[command(flatten)]`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Print the figures as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Counted runs of each measurement (at least 7 for figures that are quoted).
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Pin to this processor.
    #[arg(long)]
    pub pin: Option<usize>,
    /// Only rows whose name contains this text.
    #[arg(long)]
    pub only: Option<String>,
}

impl Options {
    /// Applies `--pin`. Says so on standard error when the processor does not exist.
    pub fn apply(&self) {
        if let Some(cpu) = self.pin
            && !pin(cpu)
        {
            eprintln!("cannot pin to processor {cpu}: running unpinned");
        }
    }

    /// Returns `true` if a row of this name was requested.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|part| name.contains(part))
    }
}

/// Pins the calling thread to a processor; tells whether that could be done.
pub fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .is_ok()
}
