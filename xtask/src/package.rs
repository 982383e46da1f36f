//! Checks of the published packages: their contents, their interfaces since the last release, their
//! dependencies.

use std::path::PathBuf;

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

use crate::setup;

/// The libraries that are published.
const LIBRARIES: [&str; 11] = [
    "samara-slab",
    "samara-rcu",
    "maple-tree",
    "samara-memblock",
    "samara-paging",
    "samara-mm",
    "samara-record",
    "samara-linux",
    "samara-conformance",
    "samara-tracer",
    "samara-capi",
];
/// The command-line tool, which is published, too.
const PROGRAM: &str = "samara";
/// The files that each package must contain.
const TEXTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages each crate and builds it from the package. Cargo resolves packages that depend on each
/// other among these, so none of them needs to be in the registry yet.
pub(crate) fn publish(shell: &Shell) -> Result<()> {
    for package in LIBRARIES.iter().chain([&PROGRAM]) {
        let files = cmd!(
            shell,
            "cargo package --list --locked --allow-dirty -p {package}"
        )
        .quiet()
        .read()?;
        for text in TEXTS {
            if !files.lines().any(|file| file == text) {
                bail!("the package {package} has no {text}");
            }
        }
    }
    remove_packed(shell)?;
    cmd!(
        shell,
        "cargo publish --workspace --dry-run --locked --allow-dirty --all-features"
    )
    // Only the success of the build counts. (Packages do not have the workspace's profiles.)
    .env("CARGO_PROFILE_DEV_DEBUG", "false")
    .env("CARGO_TARGET_DIR", PACKED)
    .run()?;
    Ok(())
}

/// The target directory of these builds.
const PACKED: &str = "target/packed";

/// Removes what earlier runs have unpacked and built. Cargo keeps the sources of the temporary
/// registry in which it resolves packages, and would use them instead of new packages of the same
/// version.
fn remove_packed(shell: &Shell) -> Result<()> {
    shell.remove_path(PACKED)?;
    let home = match (std::env::var_os("CARGO_HOME"), std::env::var_os("HOME")) {
        (Some(home), _) => PathBuf::from(home),
        (None, Some(home)) => PathBuf::from(home).join(".cargo"),
        (None, None) => return Ok(()),
    };
    let sources = home.join("registry/src");
    if !shell.path_exists(&sources) {
        return Ok(());
    }
    for folder in shell.read_dir(&sources)? {
        // Other registries are named after their host. A registry in a folder has none.
        let temporary = folder
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"-"));
        if temporary {
            shell.remove_path(&folder)?;
        }
    }
    Ok(())
}

/// Compares the libraries' interfaces with those of the last release, the last tag that begins with
/// `v`.
pub(crate) fn semver(shell: &Shell) -> Result<()> {
    let tag = cmd!(shell, "git describe --tags --abbrev=0 --match v*")
        .quiet()
        .ignore_stderr()
        .read();
    let Ok(tag) = tag else {
        println!("No release has been tagged yet: there is nothing to compare with.");
        return Ok(());
    };
    setup::cargo_tool(shell, "cargo-semver-checks", None)?;
    let libraries = LIBRARIES.iter().flat_map(|package| ["-p", package]);
    cmd!(
        shell,
        "cargo semver-checks {libraries...} --baseline-rev {tag}"
    )
    .run()?;
    Ok(())
}

/// Checks everything that is built against `deny.toml`, except the benchmarks' rivals and the fuzz
/// targets.
pub(crate) fn deny(shell: &Shell) -> Result<()> {
    setup::cargo_tool(shell, "cargo-deny", None)?;
    for manifest in ["Cargo.toml", "kernel/Cargo.toml"] {
        cmd!(
            shell,
            "cargo deny --locked --config deny.toml --manifest-path {manifest} check licenses bans sources"
        )
        .run()?;
    }
    Ok(())
}
