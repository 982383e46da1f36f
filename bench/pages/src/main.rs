//! Processes with pages compared with the running kernel: forks, faults, calls, threads. Each row
//! is the median of several runs, in which the
//! subjects take turns.
//!
//! `cargo run --release -p samara-pages`, and `-- --help`.
//! The kernel does more in two things: it enters and leaves itself for each fault and call, and its processors must forget what they remember.

mod calls;
mod emulator;
mod faults;
mod forks;
mod kernel;
mod threads;
mod world;

use std::error::Error;

use clap::{Parser, ValueEnum};
use samara_pages::Figures;

/// Processes with pages and the running kernel, in turn and in one run.
#[derive(Parser)]
pub(crate) struct Cli {
    /// Print the figures as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Counted runs of each measurement (at least 7 for figures that are quoted).
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Pages of the process that is forked: a million want 5 GiB.
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(512..=1 << 24))]
    pub(crate) pages: u64,
    /// Only this group.
    #[arg(long)]
    only: Option<Group>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    Areas,
    Fork,
    Fault,
    Call,
    /// Page tables and other crates.
    Rival,
    Thread,
    /// The operations of will-it-scale.
    Scale,
    /// A guest's loads and stores.
    Emulator,
}

impl Cli {
    fn wants(&self, group: Group) -> bool {
        self.only.is_none_or(|only| only == group)
    }
}

/// Takes the figures of a run in, unless it is the first, which only warms up.
pub(crate) fn collect<const N: usize>(run: u32, figures: &mut [Vec<f64>], of: [f64; N]) {
    if run > 0 {
        for (figures, figure) in figures.iter_mut().zip(of) {
            figures.push(figure);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    keep_memory();
    let cli = Cli::parse();
    let mut figures = Figures {
        load: load(),
        ..Figures::default()
    };
    // While this program is small: the kernel forks it.
    if cli.wants(Group::Areas) {
        figures.rows.extend(forks::areas(&cli));
    }
    if cli.wants(Group::Fork) {
        figures.rows.splice(0..0, forks::pages(&cli));
    }
    if cli.wants(Group::Fault) {
        figures.rows.extend(faults::rows(&cli));
    }
    if cli.wants(Group::Call) {
        figures.rows.extend(calls::pairs(&cli));
    }
    if cli.wants(Group::Rival) {
        figures.rows.extend(calls::rivals(&cli));
    }
    if cli.wants(Group::Emulator) {
        figures.rows.extend(emulator::rows(&cli));
    }
    if cli.wants(Group::Thread) {
        figures.rows.extend(threads::beside_each_other(&cli));
    }
    if cli.wants(Group::Scale) {
        let (rows, projections) = threads::will_it_scale(&cli);
        figures.rows.extend(rows);
        figures.projections = projections;
    }
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print(&figures);
    }
    Ok(())
}

/// Keeps freed memory in the program's allocator. Otherwise the host takes it back after each run
/// and must provide it again for the next: an area of a
/// child would cost a part of a fault of the host.
fn keep_memory() {
    // SAFETY: settings of the allocator.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
}

/// Programs that have wanted to run during the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn print(figures: &Figures) {
    for row in &figures.rows {
        let met = match row.met() {
            Some(true) => "  target reached",
            Some(false) => "  TARGET MISSED",
            None => "",
        };
        println!("{} ({}){met}", row.name, row.unit);
        for sample in &row.samples {
            let (median, best) = (sample.median, sample.best);
            println!(
                "    {:36} {median:>12.3} best {best:>12.3} ours is {}",
                sample.subject,
                samara_pages::ratio(sample.ratio)
            );
        }
    }
    if !figures.projections.is_empty() {
        println!("projected, M/s:");
    }
    for projection in &figures.projections {
        let points: Vec<_> = projection
            .points
            .iter()
            .map(|(n, rate)| format!("{n}: {rate:.2}"))
            .collect();
        println!("    {:12} {}", projection.name, points.join("  "));
    }
}
