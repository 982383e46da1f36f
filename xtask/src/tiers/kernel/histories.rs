//! The histories of samara-mm's `tests/pages`, which run in the guest. Each step must have the
//! result that it has on Linux.
//!
//! The test also compares the guest with its own engine, pages and sums included, as it does on
//! Linux.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::{Guest, compare};
use crate::setup;

/// The steps of a history. Each suite has one history.
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

/// Returns the last program that cargo's messages name.
fn executable(messages: &str) -> Option<PathBuf> {
    let named = messages.rsplit("\"executable\":\"").next()?;
    let (path, _) = named.split_once('"')?;
    Some(path.into())
}

/// Runs the histories of these seeds.
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
        // The engine in the test expects forks to copy page tables.
        let output = guest.run(&["--fork", "copy"], &words)?;
        compare(&expected, &output).with_context(|| format!("in histories with {seed}"))?;
        lines += expected.lines().count();
    }
    let (first, last) = (seeds.start(), seeds.end());
    println!("kernel: {lines} lines of histories with the seeds {first} to {last} agree");
    Ok(())
}
