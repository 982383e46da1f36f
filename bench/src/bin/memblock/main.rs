//! memblock and the scheme that it replaces (count, grow, insert), in the same run on the same
//! arrays.
//!
//! - `calls`: nanoseconds a call at 1k, 10k and 100k regions, with the old scheme, and with the one
//!   memmove that a sorted array costs at that place. Linux's own figures, measured elsewhere on a
//!   machine of this kind, are quoted.
//! - `growth`: the cost of an addition from 128 regions to a million, with arrays that double out of
//!   their own memory.
//! - `experiment`: a boot-like mix of work, over and over, and the share of time in additions, before
//!   and after.

mod bed;
mod before;
mod calls;
mod experiment;
mod growth;

use clap::{Parser, ValueEnum};
use samara_bench::{Options, Report};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Calls,
    Growth,
    Experiment,
}

#[derive(Parser)]
#[command(about = "memblock: adding in one pass, beside counting first")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["calls", "growth", "experiment"])]
    parts: Vec<Part>,
    /// Runs of the experiment.
    #[arg(long, default_value_t = 100)]
    experiment_runs: u32,
}

fn main() {
    let cli = Cli::parse();
    cli.options.apply();
    for part in &cli.parts {
        let report: Report = match part {
            Part::Calls => calls::run(&cli.options),
            Part::Growth => growth::run(&cli.options),
            Part::Experiment => experiment::run(cli.experiment_runs),
        };
        report.print(cli.options.json);
    }
}
