//! What a person asks of `samara trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// When whole maps are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// After every call.
    Each,
    /// After every so many calls of an address space, and at exec and exit.
    Every(u64),
    /// At exec and exit.
    Exit,
}

fn parse_verify(text: &str) -> Result<Verify, String> {
    match text {
        "each" => Ok(Verify::Each),
        "exit" => Ok(Verify::Exit),
        number => match number.parse() {
            Ok(0) | Err(_) => Err("give `each`, `exit` or a number of calls above 0".into()),
            Ok(number) => Ok(Verify::Every(number)),
        },
    }
}

#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// Compare whole maps after `each` call, after every N calls, or at `exit` (and exec) only. Every result is compared in any case.
    #[arg(long, value_name = "each|exit|N", default_value = "exit", value_parser = parse_verify)]
    pub(crate) verify: Verify,

    /// Check every invariant of the engine whenever a map is compared. Slow.
    #[arg(long)]
    pub(crate) check: bool,

    /// Write the summary as JSON to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Record the trace to this file, for `samara replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Print each call with its result, on standard error.
    #[arg(long)]
    pub(crate) calls: bool,

    /// Print no summary (a disagreement is still told).
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The program, and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "PROGRAM [ARGS]…"
    )]
    pub(crate) program: Vec<OsString>,
}
