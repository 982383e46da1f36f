//! The command line of Samara, as a library for its program, its tests and the fuzz targets. It is no stable interface.

mod boot;
mod compare;
mod counted;
mod describe;
mod destination;
mod dump;
mod follow;
mod histories;
pub mod input;
mod kind;
mod living;
mod maps;
mod minimise;
mod names;
mod outcome;
mod picture;
mod proc_file;
mod quantity;
mod record;
mod replay;
mod report;
mod seed;
mod shortest;
mod show;
mod side;
mod stack;
mod streams;
mod subject;
mod tally;
mod top;
mod trace;
mod undecided;
mod usage;

use clap::{Parser, Subcommand};
use usage::Described;

/// Linux's address spaces, beside Linux's own.
#[derive(Debug, Parser)]
#[command(name = "samara", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program, or attach to one that runs (`-p PID`), and perform each call on its memory on the engine too; compare results and maps
    /// with the kernel's.
    ///
    /// Exit code: the program's own (128 + N if signal N killed it), 70 if engine and kernel disagreed, 69 if they agreed but processes could
    /// not be followed or nothing was compared, 2 for misuse. Processes that outlive the program are followed until they end, too; Ctrl-C
    /// then asks them to, and a second one ends them.
    Trace(Described<trace::TraceOptions>),
    /// Perform a recorded trace again, without the program; or what `strace -f` wrote.
    ///
    /// Exit code: 0, 70 if engine and record disagree, 69 if the record has not all of the program, 2 if the file is damaged or cannot be
    /// read.
    Replay(Described<replay::ReplayOptions>),
    /// Run the boot-time allocator from a firmware's memory map: what there is, what is taken, what is free.
    ///
    /// Without a map it takes the running machine's own. Reservations of a device tree that have no address are placed in the ranges that it
    /// allows. Exit code: 0, 1 if an allocation or such a reservation found no memory, 2 for misuse or a file that cannot be read.
    Boot(Described<boot::BootOptions>),
    /// Write a core file of a live process, which stops meanwhile and runs on.
    ///
    /// What goes into it, /proc/PID/coredump_filter and MADV_DONTDUMP say, as for cores of the kernel's. Exit code: 0, 2 for misuse, or if there
    /// is no such process, it may not be looked at or has no memory, or the file cannot be written.
    Core(Described<dump::CoreOptions>),
    /// Show the memory of a live process, or of a recording at a call: what it holds, gaps, neighbours that do not merge, what a fork costs.
    ///
    /// A second one is compared with the first. Exit code: 0, 2 for misuse, or if there is no such process, it may not be looked at or has no
    /// memory, or the file is damaged.
    Show(Described<show::ShowOptions>),
    /// List processes by what they have mapped: areas, fragments, what a fork would cost, how far vm.max_map_count is. The list is refreshed until `q`.
    ///
    /// F1 tells of the other keys. Exit code: 0, 2 for misuse, or without a terminal (give --once or --json there).
    Top(Described<top::TopOptions>),
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
