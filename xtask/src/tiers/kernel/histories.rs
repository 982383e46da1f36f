//! The histories of samara-mm's `tests/pages`, which the kernel's processes perform: each step comes to what it does on Linux.
//!
//! Within the guest the test compares with the engine of its own, as it does on Linux, pages and sums included.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::{Guest, compare};
use crate::setup;

/// Steps of a history, of which each suite has one.
const STEPS: &str = "150";

/// Builds the test without shared libraries.
pub(super) fn build(shell: &Shell, to: &Path) -> Result<()> {
    const TARGET: &str = "x86_64-unknown-linux-musl";
    setup::targets(shell, None, &[TARGET])?;
    let messages = cmd!(
        shell,
        "cargo test --locked --release --quiet -p samara-mm --features hosted --test pages --target {TARGET} --no-run --message-format json"
    )
    .quiet()
    .read()?;
    let program = executable(&messages).context("cargo names no test")?;
    cmd!(shell, "strip -o {to} {program}").quiet().run()?;
    Ok(())
}

/// The program that cargo's messages name last.
fn executable(messages: &str) -> Option<PathBuf> {
    let named = messages.rsplit("\"executable\":\"").next()?;
    let (path, _) = named.split_once('"')?;
    Some(path.into())
}

/// Performs the histories of these seeds.
pub(super) fn run(guest: &Guest<'_>, seeds: RangeInclusive<u32>) -> Result<()> {
    let Guest { shell, root, .. } = guest;
    let program = root.join("tests/pages");
    let mut lines = 0;
    for seed in seeds.clone() {
        let seed = format!("SAMARA_PAGES_SEED={seed}");
        let steps = format!("SAMARA_PAGES_STEPS={STEPS}");
        let settings = [seed.as_str(), steps.as_str(), "SAMARA_PAGES_LOG=1"];
        let expected = cmd!(shell, "env {settings...} {program}").quiet().read()?;
        let words: Vec<&str> = ["env"]
            .into_iter()
            .chain(settings)
            .chain(["/tests/pages"])
            .collect();
        // The engine in the test expects tables that forks copy.
        let output = guest.run(&["--fork", "copy"], &words)?;
        compare(&expected, &output).with_context(|| format!("in histories with {seed}"))?;
        lines += expected.lines().count();
    }
    let (first, last) = (seeds.start(), seeds.end());
    println!("kernel: {lines} lines of histories with the seeds {first} to {last} agree");
    Ok(())
}
