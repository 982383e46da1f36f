//! Tests under Miri, which finds undefined behaviour.

use anyhow::Result;
use xshell::{Shell, cmd};

use super::WIDTH_32;
use crate::setup::{self, NIGHTLY};

/// Forbids pointers from integers. The borrow model is the stricter one, Stacked Borrows.
const STRICT: &str = "-Zmiri-strict-provenance";
/// The other borrow model, Tree Borrows.
const TREE: &str = "-Zmiri-strict-provenance -Zmiri-tree-borrows";
/// A big-endian target.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";
/// The target for both borrow models.
const WIDTH_64: &str = "x86_64-unknown-linux-gnu";

/// Runs everything that Miri can run, on four targets. Each takes about twenty minutes on one
/// processor. Tests do less with `cfg(miri)`.
pub(super) fn all(shell: &Shell) -> Result<()> {
    let machines = [
        (WIDTH_64, STRICT),
        (WIDTH_64, TREE),
        (WIDTH_32, STRICT),
        (BIG_ENDIAN, STRICT),
    ];
    // Miri cannot run tests with C programs, or tests that ask the kernel.
    let parts: [&[&str]; 7] = [
        &["-p", "samara-memblock", "--tests"],
        &[
            "-p",
            "samara-paging",
            "--test",
            "exhaustive",
            "--test",
            "faults",
            "--test",
            "stress",
        ],
        &["-p", "samara-rcu", "--features", "user", "--tests"],
        &["-p", "samara-slab", "--tests"],
        &["-p", "maple-tree", "--features", "rcu", "--tests"],
        &[
            "-p",
            "samara-mm",
            "--lib",
            "--test",
            "concurrent",
            "--test",
            "allocation_failure",
        ],
        &[
            "-p",
            "samara-capi",
            "--test",
            "histories",
            "--test",
            "memblock_hooks",
        ],
    ];
    for (target, flags) in machines {
        for part in parts {
            interpret(shell, target, flags, part)?;
        }
    }
    processes(
        shell,
        &["anon::", "file::", "fork::", "program::", "second::"],
    )
}

/// Runs the maple tree's tests that reach most of its unsafe code in the least time: a minute with
/// each borrow model.
pub(super) fn borrows(shell: &Shell) -> Result<()> {
    const FILES: [&str; 6] = [
        "aliasing::",
        "at_once::",
        "dup::",
        "edges::",
        "gaps::",
        "iterate::",
    ];
    let mut part = vec!["-p", "maple-tree", "--features", "rcu", "--test", "maps"];
    part.push("--");
    part.extend(FILES);
    for flags in [STRICT, TREE] {
        interpret(shell, WIDTH_64, flags, &part)?;
    }
    processes(shell, &["anon::"])
}

/// Runs the tests of processes with pages that match `filters`.
fn processes(shell: &Shell, filters: &[&str]) -> Result<()> {
    // The tests access memory by words and by bytes, as programs do. Miri's weak memory model does
    // not support atomic accesses of mixed sizes.
    let flags = format!("{STRICT} -Zmiri-disable-weak-memory-emulation");
    let mut part = vec![
        "-p",
        "samara-mm",
        "--features",
        "exec,hosted",
        "--test",
        "process",
        "--",
    ];
    part.extend(filters);
    interpret(shell, WIDTH_64, &flags, &part)
}

/// Runs tests under Miri.
fn interpret(shell: &Shell, target: &str, flags: &str, part: &[&str]) -> Result<()> {
    setup::components(shell, Some(NIGHTLY), &["miri", "rust-src"])?;
    cmd!(
        shell,
        "cargo +nightly miri test --locked --target {target} {part...}"
    )
    .env("MIRIFLAGS", flags)
    .env("CARGO_TARGET_DIR", "target/miri")
    .run()?;
    Ok(())
}
