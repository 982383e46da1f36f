//! What developers and continuous integration run.
//!
//! `cargo xtask test` installs what it needs and runs the ordinary tiers; `--all` adds the slow ones. Each
//! tier is one function in [`tiers`]; what a tier needs from the machine is asked of [`setup`], which
//! installs it. Nothing relies on what somebody installed by hand.

mod beside;
mod changed;
mod ci;
mod crates_picture;
mod excerpts;
mod figures;
mod gate;
mod guests;
mod kernel;
mod kernel_bench;
mod package;
mod panics;
mod paths;
mod prose;
mod repeat;
mod setup;
mod site;
mod tiers;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use xshell::Shell;

use crate::beside::Beside;
use crate::tiers::Tier;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Set-up, test tiers and figures of Samara"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need, then run them (ordinary tiers unless told otherwise).
    Test {
        /// Every tier: also bare metal, loom, Miri, sanitizers and fuzzing.
        #[arg(long, conflicts_with = "tier")]
        all: bool,
        /// Only these tiers (may be given several times).
        #[arg(long, value_enum)]
        tier: Vec<Tier>,
        /// Only what differs from a branch or commit, and the packages that depend on it.
        #[arg(
            long,
            value_name = "BASE",
            num_args = 0..=1,
            require_equals = true,
            default_missing_value = "main",
            conflicts_with_all = ["all", "tier"]
        )]
        changed: Option<String>,
    },
    /// Run what continuous integration runs: all tiers that fit its time, two at a time.
    Ci,
    /// Compare the instructions that operations of the maple tree take with the committed counts.
    Gate {
        /// Write the counts down instead of comparing them.
        #[arg(long)]
        bless: bool,
    },
    /// Run the benchmarks of the maple tree and of processes with pages, draw their pictures and fill the tables of README and docs/benchmarks.md.
    Figures {
        /// Small data and few calls, to see that all works.
        #[arg(long)]
        quick: bool,
        /// Only `table`, `growth`, `readers`, `c` (the C interface), `pages` (processes beside the kernel) or `kernel` (a kernel on the libraries, beside Debian's); the others' figures of the last time are drawn again.
        #[arg(long, value_parser = ["table", "growth", "readers", "c", "pages", "kernel"])]
        only: Option<String>,
        /// Draw and fill from the figures of the last time.
        #[arg(long, conflicts_with_all = ["quick", "only"])]
        draw_only: bool,
    },
    /// Run the oracle and traced programs on Debian's kernels 6.1 and 6.12, in QEMU with software emulation. Minutes for each.
    Guests {
        /// Only this version.
        #[arg(long, value_parser = ["6.1", "6.12"])]
        only: Option<String>,
        /// Random calls in each suite.
        #[arg(long, default_value_t = 1000)]
        calls: u32,
        /// Files at random that are executed.
        #[arg(long, default_value_t = 100)]
        files: u32,
        /// Seed of the first history, and of the files.
        #[arg(long, default_value_t = 1)]
        seed: u32,
        /// What they run, with commas: traced programs, those that once were followed wrongly, random calls, files that are executed, random callers that are traced.
        #[arg(long, default_value = "programs,found,oracle,exec,callers")]
        parts: String,
    },
    /// Renew the code that texts show of the sources, and the picture of the crates.
    Excerpts,
    /// Compare the panics that the libraries have in the kernel's image with the list of those that are known, in kernel/panics.txt.
    Panics,
    /// Check that comments and documents are plain English.
    Prose {
        /// Folders and files, from the workspace's root; without any, those that must pass.
        paths: Vec<std::path::PathBuf>,
    },
    /// Make the project's site in docs/site: the front page, the guides, the maple tree in the browser, the page of a recording.
    Site {
        /// Also photograph its pages for docs/figures.
        #[arg(long)]
        photographs: bool,
    },
    /// Build the kernel, boot it in QEMU with software emulation, and end with its status.
    Kernel(kernel::Options),
    /// Run the same programs in the kernel and in Debian's 6.12, in the same QEMU: instructions and times of each operation.
    KernelBench(kernel_bench::Options),
    /// Show the tiers and what each one does.
    Tiers,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let shell = Shell::new().context("cannot read the current directory")?;
    // The manifest of this crate lies one level below the root, wherever the command was given.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    shell.change_dir(
        root.canonicalize()
            .context("cannot find the workspace's root")?,
    );
    let done = match cli.command {
        Command::Kernel(options) => return Ok(kernel::run(&shell, &options)),
        Command::Test {
            changed: Some(base),
            ..
        } => changed::test(&shell, &base),
        Command::Test { all, tier, .. } => {
            let chosen = if all {
                Tier::ALL.to_vec()
            } else if tier.is_empty() {
                Tier::ORDINARY.to_vec()
            } else {
                tier
            };
            test(&shell, &chosen)
        }
        Command::Ci => ci::run(&shell),
        Command::Figures {
            quick,
            only,
            draw_only,
        } => figures::run(&shell, quick, only.as_deref(), draw_only),
        Command::Guests {
            only,
            calls,
            files,
            seed,
            parts,
        } => guests::run(
            &shell,
            only.as_deref(),
            guests::Work {
                calls,
                files,
                seed,
                parts: &parts,
                suite: "",
            },
        ),
        Command::Site { photographs } => site::run(&shell, photographs),
        Command::KernelBench(options) => kernel_bench::run(&shell, &options),
        Command::Gate { bless } => gate::run(&shell, bless),
        Command::Excerpts => {
            excerpts::run(&shell, true).and_then(|()| crates_picture::run(&shell, true))
        }
        Command::Prose { paths } => prose::run(&shell, &paths),
        Command::Panics => panics::run(&shell),
        Command::Tiers => {
            for tier in Tier::ALL {
                println!("{:10} {}", tier.name(), tier.summary());
            }
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs the tiers in order and says at the end how long each one took; stops at the first failure. Where tests follow, clippy and the documentation run
/// beside them: cargo locks its folder for builds only, and many tests take one processor.
fn test(shell: &Shell, tiers: &[Tier]) -> Result<()> {
    let mut times = Vec::new();
    let mut lint = None;
    for tier in tiers {
        eprintln!("== {}: {}", tier.name(), tier.summary());
        let start = Instant::now();
        if *tier == Tier::Lint && tiers.contains(&Tier::Unit) {
            // What is told in seconds is told first.
            tiers::formatting(shell)?;
            lint = Some(Beside::start_tier(*tier, &shell.current_dir())?);
            continue;
        }
        tier.run(shell)
            .with_context(|| format!("tier {} failed", tier.name()))?;
        times.push((tier.name(), start.elapsed()));
    }
    if let Some(lint) = lint {
        lint.finish()?;
    }
    for (name, time) in times {
        eprintln!("{name:10} {:6.1} s", time.as_secs_f64());
    }
    Ok(())
}
