//! The statuses with which `cargo xtask kernel` ends.

use anyhow::{Result, ensure};

use super::Guest;

/// Options, a program, the status, and a text that standard error must contain.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    i32,
    &'static str,
);

/// A kernel that a program can make panic or leak.
const BROKEN: &[&str] = &["--features", "refusals"];
const WHOLE: &[&str] = &[];

const CASES: [Case; 7] = [
    (BROKEN, &["/tests/break", "2"], 101, "a program asks for it"),
    (
        BROKEN,
        &["/tests/break", "3"],
        102,
        "leak: 1 private frames",
    ),
    (WHOLE, &["sh", "-c", "exit 7"], 7, ""),
    (WHOLE, &["sh", "-c", "kill -9 $$; sleep 1"], 137, ""),
    (WHOLE, &["sh", "-c", "kill -SEGV $$"], 139, ""),
    (WHOLE, &["/no/such/program"], 127, ""),
    (
        &["--timeout", "15"],
        &["sleep", "1000"],
        124,
        "stopped after",
    ),
];

pub(super) fn run(guest: &Guest<'_>) -> Result<()> {
    for (options, program, expected, told) in CASES {
        let output = guest.boot(options, program, "")?;
        let (status, errors) = (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(
            status == Some(expected) && errors.contains(told),
            "{program:?} on {} ends with {status:?} instead of {expected}, and tells {errors:?}",
            guest.arch.name()
        );
    }
    println!(
        "kernel: {} statuses are right on {}",
        CASES.len(),
        guest.arch.name()
    );
    Ok(())
}
