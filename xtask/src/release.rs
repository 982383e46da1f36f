//! Releases, by cargo-release: the version, the changelog, the lock files, the commit and the tag.
//!
//! The settings are in `release.toml`, and in `tools/samara/Cargo.toml` for the workspace as a
//! whole. Nothing is pushed or published here.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::setup;

/// The workspaces besides the main one. Their lock files name its packages with their versions.
const APART: [&str; 5] = ["bench", "fuzz", "kernel", "loom", "tools/site"];
/// The newest version that the pinned toolchain builds.
const CARGO_RELEASE: &str = "1.1.6";

/// Makes a release of all packages, or shows what it would change.
///
/// # Errors
///
/// Fails if cargo-release refuses: for uncommitted changes, a version that exists, or a changelog
/// without its section of unreleased changes.
pub(crate) fn run(shell: &Shell, level: &str, execute: bool) -> Result<()> {
    setup::cargo_tool(shell, "cargo-release", Some(CARGO_RELEASE))?;
    let execute = execute.then_some("--execute");
    cmd!(
        shell,
        "cargo release {level} --workspace --no-confirm --no-push {execute...}"
    )
    .run()?;
    Ok(())
}

/// Renews the lock files of the other workspaces after a change of the version. cargo-release calls
/// it before it commits.
///
/// # Errors
///
/// Fails if a manifest and the packages that it names do not fit.
pub(crate) fn locks(shell: &Shell) -> Result<()> {
    if shell.var("DRY_RUN").is_ok_and(|it| it == "true") {
        return Ok(());
    }
    for folder in APART {
        let manifest = format!("{folder}/Cargo.toml");
        cmd!(shell, "cargo update --workspace --manifest-path {manifest}").run()?;
    }
    Ok(())
}
