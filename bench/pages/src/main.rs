//! Processes with pages beside the running kernel: forks, faults, calls, threads. Each row is the median of several runs, in which the
//! subjects take turns.
//!
//! `cargo run --release -p samara-pages -- [--json] [--runs N] [--pages N] [--only GROUP]`; groups are `fork`, `areas`, `fault`, `call`, `rival`, `thread`, `scale`.
//! The kernel does more in two things: it enters and leaves itself for each fault and call, and its processors must forget what they remember.

mod calls;
mod faults;
mod forks;
mod kernel;
mod threads;
mod world;

use std::error::Error;

use samara_pages::Figures;

pub(crate) struct Cli {
    json: bool,
    pub(crate) runs: u32,
    pub(crate) pages: u64,
    only: Option<String>,
}

impl Cli {
    fn of(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut cli = Cli {
            json: false,
            runs: 7,
            pages: 1 << 20,
            only: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: of what?"));
            match word.as_str() {
                "--json" => cli.json = true,
                "--runs" => cli.runs = value()?.parse()?,
                "--pages" => cli.pages = value()?.parse()?,
                "--only" => cli.only = Some(value()?),
                _ => return Err(format!("{word} is not known").into()),
            }
        }
        Ok(cli)
    }

    fn wants(&self, group: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == group)
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
    let cli = Cli::of(std::env::args().skip(1))?;
    let mut figures = Figures {
        load: load(),
        ..Figures::default()
    };
    // While this program is small: the kernel forks it.
    if cli.wants("areas") {
        figures.rows.extend(forks::areas(&cli));
    }
    if cli.wants("fork") {
        figures.rows.splice(0..0, forks::pages(&cli));
    }
    if cli.wants("fault") {
        figures.rows.extend(faults::rows(&cli));
    }
    if cli.wants("call") {
        figures.rows.extend(calls::pairs(&cli));
    }
    if cli.wants("rival") {
        figures.rows.extend(calls::rivals(&cli));
    }
    if cli.wants("thread") {
        figures.rows.extend(threads::beside_each_other(&cli));
    }
    if cli.wants("scale") {
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

/// What is freed stays with the program's allocator. Otherwise it goes back to the host after each run, which must give it again for the next: an area of a
/// child would cost a part of a fault of the host's, whoever made it.
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
