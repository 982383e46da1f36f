//! The running kernel's version.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use samara_mm::KernelVersion;

/// Returns the full version, that of the stable release included.
pub(crate) fn running() -> KernelVersion {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    // Ubuntu names the stable release in a file that others have not.
    let version = read("/proc/sys/kernel/version") + " " + &read("/proc/version_signature");
    KernelVersion::from_uname(&release, &version).unwrap()
}
