//! The maple tree and its rivals: a table of operations with their targets, or the growth of each
//! operation
//! with the number of entries.
//!
//! Data: ranges of 1 to 64 pages, half of them followed by a hole of 1 to 64 pages, in page numbers; keys hit uniformly
//! at random. Rivals take turns within each run, and the order of keys is shuffled anew for every run.

mod c;
mod growth;
mod memory;
mod readers;
mod table;
mod work;

use clap::Parser;
use samara_bench::Options;
use samara_bench::heap::{Counting, keep_memory};

#[global_allocator]
static HEAP: Counting = Counting;

#[derive(Parser)]
#[command(about = "The maple tree beside its rivals")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Small data, few calls and only the rivals that targets name: to see that all works, and for a first look.
    #[arg(long)]
    quick: bool,
    /// Each operation at each of `--sizes` instead of the table.
    #[arg(long)]
    growth: bool,
    /// Numbers of entries for `--growth`, smallest first.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000])]
    sizes: Vec<u64>,
    /// Concurrent readers, with and without a writer, instead of the table.
    #[arg(long, conflicts_with = "growth")]
    readers: bool,
    /// The C interface and Linux's figures instead of the table.
    #[arg(long, conflicts_with_all = ["growth", "readers"])]
    c: bool,
}

fn main() {
    keep_memory();
    let mut cli = Cli::parse();
    // Figures of a thread that wanders are of no use. Readers pin themselves, each elsewhere.
    if !cli.readers {
        let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        cli.options.pin.get_or_insert(last);
        cli.options.apply();
    }
    let report = if cli.growth {
        growth::report(&cli.options, &cli.sizes, cli.quick)
    } else if cli.readers {
        readers::report(&cli.options, cli.quick)
    } else if cli.c {
        c::report(&cli.options, cli.quick)
    } else {
        table::report(&cli.options, cli.quick)
    };
    report.print(cli.options.json);
}
