//! Settings of the whole machine, which one process at a time may change: of this run, and of others in other copies of the project.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

/// Waits until no other process holds the lock of this name, and holds it until the file is closed: by this process, and by who has inherited it.
///
/// # Errors
/// Why there is no such file.
pub(crate) fn lock(name: &str) -> Result<File, String> {
    // Not in the folder that `TMPDIR` names: others may have another one.
    let path = format!("/tmp/samara-{name}.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| format!("{path}: {error}"))?;
    // SAFETY: a descriptor of ours.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(format!("{path}: {error}"));
        }
    }
    Ok(file)
}
