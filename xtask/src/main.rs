//! The commands for developers and continuous integration.
//!
//! `cargo xtask test` installs what it needs and runs the ordinary tiers; `--all` adds the slow
//! ones. Each tier is one function in [`tiers`]. [`setup`] installs what a tier needs, so no tier
//! depends on software that was installed by hand.

mod background;
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
mod release;
mod repeat;
mod setup;
mod site;
mod tiers;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use xshell::Shell;

use crate::background::Background;
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
    /// Install what the tests need, and run them (by default the ordinary tiers).
    Test {
        /// All tiers, including bare metal, loom, Miri, sanitizers and fuzzing.
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
    /// Run what continuous integration runs: all tiers that fit into its time, two at a time.
    Ci,
    /// Compare the instructions of the maple tree's operations with the committed counts.
    Gate {
        /// Write the counts to the committed file instead of comparing them.
        #[arg(long)]
        bless: bool,
    },
    /// Run the benchmarks of the maple tree and of processes with pages, draw their pictures, and
    /// fill the tables of README and docs/benchmarks.md.
    Figures {
        /// Small data and few calls, to see that everything works.
        #[arg(long)]
        quick: bool,
        /// Only `table`, `growth`, `readers`, `c` (the C interface), `pages` (processes compared
        /// with the kernel) or `kernel` (the kernel compared with Debian's). The others are drawn
        /// from their latest figures.
        #[arg(long, value_parser = ["table", "growth", "readers", "c", "pages", "kernel"])]
        only: Option<String>,
        /// Draw and fill from the latest figures.
        #[arg(long, conflicts_with_all = ["quick", "only"])]
        draw_only: bool,
    },
    /// Run the oracle and traced programs on Debian's kernels 6.1 and 6.12, in QEMU with software
    /// emulation. It takes minutes for each.
    Guests {
        /// Only this version.
        #[arg(long, value_parser = ["6.1", "6.12"])]
        only: Option<String>,
        /// Random calls in each suite.
        #[arg(long, default_value_t = 1000)]
        calls: u32,
        /// Number of random files that are executed.
        #[arg(long, default_value_t = 100)]
        files: u32,
        /// Seed of the first history and of the files.
        #[arg(long, default_value_t = 1)]
        seed: u32,
        /// Parts of the tests, separated by commas: traced programs, programs that were once traced
        /// wrongly, random calls, executed files, random callers that are traced.
        #[arg(long, default_value = "programs,found,oracle,exec,callers")]
        parts: String,
    },
    /// Renew the excerpts of sources in texts, and the picture of the crates.
    Excerpts,
    /// Compare the panics of the libraries in the kernel's image with the list in
    /// kernel/panics.txt.
    Panics,
    /// Check that comments and documents are plain English.
    Prose {
        /// Folders and files, from the workspace's root [default: those that must pass].
        paths: Vec<std::path::PathBuf>,
    },
    /// Generate the project's site in docs/site: the front page, the guides, the maple tree in the
    /// browser, the page of a recording.
    Site {
        /// Also photograph its pages for docs/figures.
        #[arg(long)]
        photographs: bool,
    },
    /// Show what a release changes: version, changelog, lock files, commit and tag.
    Release {
        /// `patch`, `minor`, `major`, or a version.
        #[arg(default_value = "patch")]
        level: String,
        /// Change, commit and tag. Nothing is pushed or published.
        #[arg(long)]
        execute: bool,
    },
    /// Renew the lock files of the other workspaces after a change of the version.
    #[command(hide = true)]
    Locks,
    /// Build the kernel, boot it in QEMU with software emulation, and end with its status.
    Kernel(kernel::Options),
    /// Run the same program on the kernel and on Debian's 6.12, in the same QEMU, and show the
    /// instructions and times of each operation.
    KernelBench(kernel_bench::Options),
    /// List the tiers and what each one does.
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
    // This crate's manifest is one level below the root, independent of the current directory.
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
        Command::Release { level, execute } => release::run(&shell, &level, execute),
        Command::Locks => release::locks(&shell),
        Command::Tiers => {
            for tier in Tier::ALL {
                println!("{:10} {}", tier.name(), tier.summary());
            }
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs the tiers in order, and prints the time of each one. Stops at the first failure.
///
/// If tests follow, clippy and the documentation run in the background: cargo locks its folder for
/// builds only, and many tests take one processor.
fn test(shell: &Shell, tiers: &[Tier]) -> Result<()> {
    let mut times = Vec::new();
    let mut lint = None;
    for tier in tiers {
        eprintln!("== {}: {}", tier.name(), tier.summary());
        let start = Instant::now();
        if *tier == Tier::Lint && tiers.contains(&Tier::Unit) {
            // It takes seconds, so it comes first.
            tiers::formatting(shell)?;
            lint = Some(Background::start_tier(tier.name(), &shell.current_dir())?);
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
