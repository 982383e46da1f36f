//! Exit codes, and how a refusal is told.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use samara_conformance::names::printable;
use samara_conformance::tally::Verdict;
use samara_tracer::record::Cut;
use samara_tracer::tell::{say, unless_closed};

/// Engine and kernel disagreed (`EX_SOFTWARE` of sysexits).
pub(crate) const DISAGREED: i32 = 70;
/// They agreed about what was compared, but something was not, or nothing was (`EX_UNAVAILABLE` of sysexits).
pub(crate) const INCOMPLETE: i32 = 69;
/// The command was used wrongly, or a file could not be read or written.
pub(crate) const MISUSE: i32 = 2;

/// Returns the exit code for what a trace comes to.
pub(crate) fn of_verdict(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Agreed => 0,
        Verdict::Disagreed => DISAGREED,
        Verdict::Undecided | Verdict::NotAll | Verdict::Nothing => INCOMPLETE,
    }
}

/// Returns `true` if two paths name one file, which need not exist yet. Devices and pipes may be
/// named twice.
fn same_file(a: &Path, b: &Path) -> bool {
    if let (Ok(a), Ok(b)) = (fs::metadata(a), fs::metadata(b)) {
        return a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    let place = |path: &Path| {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        Some((fs::canonicalize(folder).ok()?, path.file_name()?.to_owned()))
    };
    place(a).is_some_and(|a| place(b) == Some(a))
}

/// Refuses files of which one would be written over another. Each comes with the option, or the role, that names it.
///
/// # Errors
/// What to complain of.
pub(crate) fn distinct(files: &[(&str, &Path)]) -> Result<(), String> {
    for (index, (role, file)) in files.iter().enumerate() {
        for (other, known) in &files[..index] {
            if same_file(known, file) {
                return Err(format!(
                    "{other} and {role} name one file: give each its own"
                ));
            }
        }
    }
    Ok(())
}

/// Says in one line what is wrong and what to do; the value is the exit code for it.
pub(crate) fn complain(text: &str) -> i32 {
    let _ = writeln!(std::io::stderr().lock(), "samara: {}", printable(text));
    MISUSE
}

/// Says that a recording ends early; the value is the exit code for it.
pub(crate) fn incomplete(recording: &OsStr, cut: Cut) -> i32 {
    say(&format!("samara: `{}` {cut}", recording.display()));
    INCOMPLETE
}

/// Prints a text on standard output.
///
/// # Errors
/// What to complain of.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
        .map_err(|error| format!("standard output cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        assert!(same_file(&a, &folder.path().join(".").join("a")));
        assert!(!same_file(&a, &b));
        fs::write(&a, "").unwrap();
        assert!(!same_file(&a, &b));
        fs::hard_link(&a, &b).unwrap();
        assert!(same_file(&a, &b));
        let nowhere = Path::new("/dev/null");
        assert!(!same_file(nowhere, nowhere));
        assert_eq!(distinct(&[("--json", &a), ("--html", nowhere)]), Ok(()));
        assert_eq!(
            distinct(&[("--json", &a), ("--html", nowhere), ("--svg", &b)]),
            Err("--json and --svg name one file: give each its own".to_owned())
        );
    }
}
