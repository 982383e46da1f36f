//! Fault injection: each allocation of a script fails once. The script must print what it always
//! prints, or fail, and the kernel must leak nothing.

use anyhow::{Context, Result};

use super::Guest;

/// Makes every `stride`th allocation fail, in a kernel that is built for it.
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
