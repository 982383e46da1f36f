//! Checks that the files and folders that ARCHITECTURE.md names exist.

use anyhow::{Result, bail};
use xshell::Shell;

const TEXT: &str = "ARCHITECTURE.md";

/// Refuses a path in code quotes that does not exist.
///
/// # Errors
///
/// Fails if a path is missing, and names all of those.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    let text = shell.read_file(TEXT)?;
    let missing: Vec<&str> = named(&text)
        .into_iter()
        .filter(|path| !shell.path_exists(path))
        .collect();
    if !missing.is_empty() {
        bail!(
            "{TEXT} names paths that do not exist: {}",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Returns the words in code quotes that have the form of a path from the root.
fn named(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|it| {
        it.contains('/') && !it.contains([' ', '*', '{']) && !it.starts_with(['/', '-'])
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_patterns_are_no_paths() {
        let text =
            "`crates/mm`, `/proc/PID/maps`, `cargo run a/b`, `include/*.h`, `mmap`, `docs/lib.rs`";
        assert_eq!(named(text), ["crates/mm", "docs/lib.rs"]);
    }
}
