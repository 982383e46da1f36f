//! Every test of the workspace, in two lines at the same time: many tests take one processor.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::beside::Beside;
use crate::setup;

/// All features, in one go: none of them replaces anything, and a second set of features would compile everything twice. Tiers `bare`, `borrows` and `sanitize`
/// build without most of them.
const ALL: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// Packages whose tests make the second line,
const SECOND: [&str; 2] = ["samara-mm", "samara-capi"];
/// and a test that changes a limit of the machine, which those of `samara-mm` compare with the kernel's behaviour.
const LIMITS: &str = "undecided";

pub(super) fn run(shell: &Shell) -> Result<()> {
    // The C interface is tested from C and from C++.
    setup::debian(shell, "cc", "gcc")?;
    setup::debian(shell, "c++", "g++")?;
    // Programs with 32-bit addresses are traced, too.
    if cfg!(target_arch = "x86_64") {
        setup::multilib(shell)?;
    }
    cmd!(shell, "cargo test {ALL...} --no-run").run()?;
    let Lines {
        first,
        second,
        without,
    } = lines(shell)?;
    let mut command = Command::new("cargo");
    command.arg("test").args(ALL).args(second);
    let second = Beside::start("second-line", &shell.current_dir(), command)?;
    // Not quiet: the closing lines of each test binary say what was run.
    cmd!(shell, "cargo test {ALL...} {without...} --lib").run()?;
    cmd!(shell, "cargo test {ALL...} {first...}").run()?;
    cmd!(shell, "cargo test {ALL...} --doc").run()?;
    second.finish()
}

/// Arguments of cargo.
struct Lines {
    /// The targets of the first line, libraries left out.
    first: Vec<String>,
    /// Those of the second line.
    second: Vec<String>,
    /// Excludes the packages whose libraries have no tests of their own: `--lib` alone would compile those libraries for tests, too.
    without: Vec<String>,
}

/// Divides all that cargo tests unless it is asked for something else.
fn lines(shell: &Shell) -> Result<Lines> {
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
    // Cargo takes a name of all packages: a name that two packages have is in the second line only.
    let is_second = |name: &[String; 2]| {
        let mut same = named.iter().filter(|(other, _)| other == name);
        same.any(|(_, is_second)| *is_second)
    };
    let names = named.iter().map(|(name, _)| name);
    let (second, first): (Vec<_>, Vec<_>) = names.partition(|name| is_second(name));
    let arguments = |names: Vec<&[String; 2]>| names.into_iter().flatten().cloned().collect();
    Ok(Lines {
        first: arguments(first),
        second: arguments(second),
        without,
    })
}
