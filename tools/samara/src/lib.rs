//! The command line of Samara, as a library for its program, its tests and the fuzz targets. It is no stable interface.

mod boot;
mod destination;
mod dump;
pub mod input;
mod kind;
mod outcome;
mod picture;
mod replay;
mod report;
mod show;
mod stack;
mod subject;
mod top;
mod trace;
mod usage;

use clap::{Parser, Subcommand};
use usage::Described;

/// Linux's address spaces, compared with Linux itself.
#[derive(Debug, Parser)]
#[command(name = "samara", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program, or attach to a running process (`-p PID`), and perform each of its calls on memory on the engine, too; compare results
    /// and maps with the kernel's.
    ///
    /// Processes that outlive the program are followed until they end. Ctrl-C then asks them to end, and a second Ctrl-C kills them. If samara
    /// itself is killed, the programs that it started are killed, too: the filter on them would make their calls fail with ENOSYS. A process that
    /// samara attached to runs on.
    #[command(
        override_usage = "samara trace [OPTIONS] [--] PROGRAM [ARGS]...\n       samara trace [OPTIONS] -p PID",
        after_long_help = codes::TRACE
    )]
    Trace(Described<trace::TraceOptions>),
    /// Perform a recorded trace again without the program, or what `strace -f` wrote.
    ///
    /// If the recording was interrupted, everything up to there is performed.
    #[command(after_long_help = codes::REPLAY)]
    Replay(Described<replay::ReplayOptions>),
    /// Run the boot-time allocator over a firmware's memory map: what memory there is, what is reserved, what is free.
    ///
    /// Without a FILE, the running machine's own map is used. Reservations of a device tree that have no address are placed within the ranges
    /// that the tree allows.
    #[command(after_long_help = codes::BOOT)]
    Boot(Described<boot::BootOptions>),
    /// Write a core file of a live process, which is stopped during the dump and then runs on, or
    /// of a recording.
    ///
    /// /proc/PID/coredump_filter and MADV_DONTDUMP decide what goes into the file, as for the kernel's own cores.
    #[command(after_long_help = codes::LOOK)]
    Core(Described<dump::CoreOptions>),
    /// Show the memory of a live process or of a recording: areas by kind, gaps, why neighbours do not merge, what a fork costs.
    ///
    /// With a second subject, the difference between the two is shown.
    #[command(after_long_help = codes::LOOK)]
    Show(Described<show::ShowOptions>),
    /// List processes by what they have mapped: areas, fragments, the cost of a fork, and how far vm.max_map_count is.
    ///
    /// The list is refreshed until `q` is pressed. F1 lists the other keys.
    #[command(after_long_help = codes::TOP)]
    Top(Described<top::TopOptions>),
}

/// The meanings of exit codes, as `--help` lists them.
mod codes {
    pub(super) const TRACE: &str = "\
Exit codes:
   -  the program's own, or 128 + N if signal N killed it; 0 for a process that was attached to
  70  engine and kernel disagree
  69  they agree, but something could not be followed, decided or compared
   2  misuse; or the record, the summary or a picture could not be written (how the program ended is then told)";
    pub(super) const REPLAY: &str = "\
Exit codes:
   0  engine and record agree
  70  they disagree
  69  they agree, but the record has not all of the program, or something could not be decided
   2  misuse, or a file that is damaged or cannot be read or written";
    pub(super) const BOOT: &str = "\
Exit codes:
   0  all allocations, and all reservations without an address, found memory
   1  one of them did not
   2  misuse, or a file that cannot be read";
    pub(super) const LOOK: &str = "\
Exit codes:
   0  done
  69  done, but the recording was interrupted
   2  misuse; no such process, or it may not be looked at or has no memory; a file that is damaged or cannot be read or written";
    pub(super) const TOP: &str = "\
Exit codes:
   0  done
   2  misuse, or there is no terminal (then give --once or --json)";
}

/// Does what the arguments of the program ask for; the value is the exit code. Misuse and `--help` end the program.
pub fn run() -> i32 {
    stack::with_room(command)
}

fn command() -> i32 {
    match usage::parse::<Cli>().command {
        Command::Trace(Described(options)) => trace::run(&options),
        Command::Replay(Described(options)) => replay::run(&options),
        Command::Boot(Described(options)) => boot::run(&options),
        Command::Core(Described(options)) => dump::run(&options),
        Command::Show(Described(options)) => show::run(&options),
        Command::Top(Described(options)) => top::run(&options),
    }
}
