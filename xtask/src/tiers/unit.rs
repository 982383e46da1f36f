//! All tests of the workspace, in two groups at the same time, because many tests take one
//! processor.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::background::Background;
use crate::setup;

/// All features at once, because none of them replaces anything, and a second set of features would
/// compile everything twice. Tiers `bare`, `borrows` and `sanitize` build without most features.
const ALL: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// The packages whose tests form the second group.
const SECOND: [&str; 2] = ["samara-mm", "samara-capi"];
/// A test of the second group, too. It changes a limit of the machine, and tests of `samara-mm`
/// depend on that limit.
const LIMITS: &str = "undecided";

pub(super) fn run(shell: &Shell) -> Result<()> {
    // The C interface is tested from C and from C++.
    setup::debian(shell, "cc", "gcc")?;
    setup::debian(shell, "c++", "g++")?;
    // 32-bit programs are traced, too.
    if cfg!(target_arch = "x86_64") {
        setup::multilib(shell)?;
    }
    cmd!(shell, "cargo test {ALL...} --no-run").run()?;
    let Groups {
        first,
        second,
        without,
    } = groups(shell)?;
    let mut command = Command::new("cargo");
    command.arg("test").args(ALL).args(second);
    let second = Background::start("second-group", &shell.current_dir(), command)?;
    // Not quiet, because the last line of each test binary reports what was run.
    cmd!(shell, "cargo test {ALL...} {without...} --lib").run()?;
    cmd!(shell, "cargo test {ALL...} {first...}").run()?;
    cmd!(shell, "cargo test {ALL...} --doc").run()?;
    second.finish()
}

/// The arguments of cargo.
struct Groups {
    /// The targets of the first group, without libraries.
    first: Vec<String>,
    /// The targets of the second group.
    second: Vec<String>,
    /// Excludes packages whose libraries have no tests. `--lib` alone would compile these libraries
    /// for tests, too.
    without: Vec<String>,
}

/// Divides everything that cargo tests by default into two groups.
fn groups(shell: &Shell) -> Result<Groups> {
    let metadata = cmd!(
        shell,
        "cargo metadata --no-deps --locked --format-version 1"
    )
    .quiet()
    .read()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array();
    let (mut named, mut without) = (Vec::new(), Vec::new());
    for package in packages.context("cargo names no packages")? {
        let is_second = SECOND.iter().any(|name| package["name"] == *name);
        let targets = package["targets"].as_array();
        for target in targets.context("cargo names no targets")? {
            let kind = target["kind"][0].as_str().unwrap_or_default();
            let name = target["name"].as_str().unwrap_or_default();
            let is_tested = target["test"] == true;
            match kind {
                "bin" | "example" | "test" | "bench" if is_tested => {
                    let arguments = [format!("--{kind}"), name.to_owned()];
                    named.push((arguments, is_second || name == LIMITS));
                }
                "bin" | "example" | "test" | "bench" | "custom-build" => {}
                _ if is_tested => {}
                _ => {
                    let package = package["name"].as_str().unwrap_or_default();
                    without.extend(["--exclude".to_owned(), package.to_owned()]);
                }
            }
        }
    }
    // Cargo applies a name to all packages, so a name of two packages is in the second group only.
    let is_second = |name: &[String; 2]| {
        let mut same = named.iter().filter(|(other, _)| other == name);
        same.any(|(_, is_second)| *is_second)
    };
    let names = named.iter().map(|(name, _)| name);
    let (second, first): (Vec<_>, Vec<_>) = names.partition(|name| is_second(name));
    let arguments = |names: Vec<&[String; 2]>| names.into_iter().flatten().cloned().collect();
    Ok(Groups {
        first: arguments(first),
        second: arguments(second),
        without,
    })
}
