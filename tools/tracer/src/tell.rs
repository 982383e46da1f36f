//! Lines on standard error, and pipes that are closed.

use std::io::{self, Write};

use samara_conformance::names::printable;

/// Prints lines on standard error. Ignores a stream that is closed or full.
pub fn say(lines: &str) {
    let printed: Vec<_> = lines.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr().lock(), "{}", printed.join("\n"));
}

/// Returns the error of a write, unless the reader has closed its pipe. Then the reader has seen
/// enough, and the command ends as if everything had been read.
///
/// # Errors
/// Every other error of the write.
pub fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let written = writer.write_all(b"unread");
        assert!(written.is_err());
        assert!(unless_closed(written).is_ok());
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(unless_closed(Err(full)).is_err());
    }
}
