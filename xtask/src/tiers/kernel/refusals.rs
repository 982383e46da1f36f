//! Each allocation of a script refused to the kernel, one after the other: the script does what it always does or fails, and nothing is lost.

use anyhow::{Context, Result};

use super::Guest;

/// Refuses one allocation of `stride`, in a kernel that is built for this.
pub(super) fn run(guest: &Guest<'_>, stride: &str) -> Result<()> {
    let options = ["--features", "refusals", "--cpus", "1"];
    let program = ["/tests/each", stride, "1", "sh", "/tests/refusals.sh"];
    let output = guest.run(&options, &program);
    let output = output.context("the kernel fails where allocations are refused")?;
    for line in output.lines() {
        println!(
            "kernel: {line}; {}, one of {stride} refused",
            guest.arch.name()
        );
    }
    Ok(())
}
