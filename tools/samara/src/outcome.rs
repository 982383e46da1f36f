//! Exit codes, and how a refusal is told.

/// Engine and kernel disagreed (`EX_SOFTWARE` of sysexits).
pub(crate) const DISAGREED: i32 = 70;
/// The command was used wrongly, or a file could not be read or written.
pub(crate) const MISUSE: i32 = 2;

/// Says in one line what is wrong and what to do; the value is the exit code for it.
pub(crate) fn complain(text: &str) -> i32 {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "samara: {text}");
    MISUSE
}
