//! Tests under Miri, which finds undefined behaviour.

use anyhow::Result;
use xshell::{Shell, cmd};

use super::WIDTH_32;
use crate::setup::{self, NIGHTLY};

/// Keeps integers from becoming pointers. Of the two borrow models this is the stricter one, Stacked Borrows.
const STRICT: &str = "-Zmiri-strict-provenance";
/// The other borrow model.
const TREE: &str = "-Zmiri-strict-provenance -Zmiri-tree-borrows";
/// A big-endian machine.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";
/// The machine of both models.
const WIDTH_64: &str = "x86_64-unknown-linux-gnu";

/// Everything that Miri can run, on four machines: some twenty minutes each, on one processor. Tests look for `cfg(miri)` and do less.
pub(super) fn all(shell: &Shell) -> Result<()> {
    let machines = [
        (WIDTH_64, STRICT),
        (WIDTH_64, TREE),
        (WIDTH_32, STRICT),
        (BIG_ENDIAN, STRICT),
    ];
    // Tests that run C programs, or ask the kernel, are beyond Miri.
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

/// The maple tree's tests that reach most of its unsafe code in the least time: a minute under each of the borrow models.
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

/// Tests of processes with pages, as far as `filters` go.
fn processes(shell: &Shell, filters: &[&str]) -> Result<()> {
    // Their memory is read by words and by bytes, as programs do; Miri's model of weak memory has no answer to atomic accesses of mixed sizes.
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
