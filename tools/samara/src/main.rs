//! The command line of Samara.

mod compare;
mod describe;
mod follow;
mod maps;
mod outcome;
mod record;
mod replay;
mod report;
mod seed;
mod tally;
mod trace;

use clap::{Parser, Subcommand};

/// Linux's address spaces, beside Linux's own.
#[derive(Debug, Parser)]
#[command(name = "samara", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program and perform each call on its memory on the engine too; compare results and maps with the kernel's.
    ///
    /// Exit code: the program's own (128 + N if signal N killed it), 70 if engine and kernel disagreed, 2 for misuse. Processes that
    /// outlive the program are followed until they end, too; Ctrl-C then asks them to.
    Trace(trace::TraceOptions),
    /// Perform a recorded trace again, without the program.
    ///
    /// Exit code: 0, 70 if engine and record disagree, 2 if the file is damaged or cannot be read.
    Replay(replay::ReplayOptions),
}

fn main() {
    let code = match Cli::parse().command {
        Command::Trace(options) => trace::run(&options),
        Command::Replay(options) => replay::run(&options),
    };
    std::process::exit(code);
}
