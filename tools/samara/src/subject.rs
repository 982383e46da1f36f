//! The subject of `show` and `core`: a process by its number, or a recording at a call. A file's
//! name may have any bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the number of a process, if the subject is a number.
///
/// # Errors
/// That no process has this one.
pub(crate) fn process(subject: &OsStr) -> Result<Option<i32>, String> {
    match subject.to_str().and_then(|text| text.parse().ok()) {
        Some(pid) if pid <= 0 => Err(format!("`{pid}` is no number of a process")),
        pid => Ok(pid),
    }
}

/// Returns the parts of `FILE@CALL`.
pub(crate) fn at_call(subject: &OsStr) -> Option<(&Path, u64)> {
    let bytes = subject.as_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'@')?;
    let (file, call) = (bytes.get(..at)?, bytes.get(at + 1..)?);
    let call = std::str::from_utf8(call).ok()?.parse().ok()?;
    Some((OsStr::from_bytes(file).as_ref(), call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_told_apart() {
        let process = |text: &str| process(text.as_ref());
        assert_eq!(process("17"), Ok(Some(17)));
        assert_eq!(process("17@3"), Ok(None));
        assert_eq!(process("99999999999"), Ok(None));
        assert!(process("0").is_err() && process("-1").is_err());
        assert_eq!(at_call("a@b@3".as_ref()), Some(("a@b".as_ref(), 3)));
        assert_eq!(at_call("a@".as_ref()), None);
        assert_eq!(at_call("a@18446744073709551616".as_ref()), None);
        let odd = OsStr::from_bytes(b"\xff@3");
        let file = Path::new(OsStr::from_bytes(b"\xff"));
        assert_eq!(at_call(odd), Some((file, 3)));
    }
}
