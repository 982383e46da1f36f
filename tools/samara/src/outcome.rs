//! Exit codes, and how a refusal is told.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::names::printable;

/// Engine and kernel disagreed (`EX_SOFTWARE` of sysexits).
pub(crate) const DISAGREED: i32 = 70;
/// They agreed about what was compared, but something was not, or nothing was (`EX_UNAVAILABLE` of sysexits).
pub(crate) const INCOMPLETE: i32 = 69;
/// The command was used wrongly, or a file could not be read or written.
pub(crate) const MISUSE: i32 = 2;

/// Whether two paths name one file, which need not exist yet. Devices and pipes may be named twice.
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
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "samara: {}", printable(text));
    MISUSE
}

/// Prints a text on standard output.
///
/// # Errors
/// What to complain of. That nobody reads any more is no fault: whoever read may have seen enough and closed the pipe.
pub(crate) fn print(text: &str) -> Result<(), String> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
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
