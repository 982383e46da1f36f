//! The options of `samara trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use samara_tracer::trace::Verify;

use crate::picture::PictureOptions;

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
    /// Compare maps after `each` call, after every N calls, or only at `exit` (and exec). Results are always compared.
    ///
    /// `each` compares whole maps of up to 256 areas. Of larger ones it compares what the call can
    /// have changed. It compares the whole map once in as many calls as a sixteenth of its areas
    /// (once in 1,875 calls at 30,000 areas), at fork, exec and exit, and wherever a part differs.
    /// Before Linux 6.11, which cannot be asked for a part, it compares the whole map each time.
    #[arg(long, value_name = "each|exit|N", default_value = "exit", value_parser = parse_verify)]
    pub(crate) verify: Verify,

    /// Check every invariant of the engine at each comparison of maps. Slow.
    #[arg(long)]
    pub(crate) check: bool,

    /// Write the summary as JSON to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Record the trace to this file, for `samara replay`, `show` and `core`. If samara is killed, the file lacks less than a second.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) pictures: PictureOptions,

    /// Print each call with its result, on standard error.
    #[arg(long)]
    pub(crate) calls: bool,

    /// Print the summary only if not everything was compared and agreed.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Attach to a running process instead of starting a program. Ctrl-C detaches, and the process runs on.
    /// The number of a thread stands for its process.
    ///
    /// All its threads, and the children that it makes from then on, are followed. This is slower than starting the program: no filter can be put
    /// on a running process, so that every system call stops. What no map shows of the time before is unknown: who owns private pages, which
    /// open files are mapped, what was promised to areas to come.
    #[arg(
        long,
        short,
        value_name = "PID",
        conflicts_with = "program",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(1..)
    )]
    pub(crate) pid: Option<i32>,

    /// The program to run, and its arguments.
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}
