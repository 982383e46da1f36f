//! The kernel that a program runs on, or ran on: its name for itself, and the version whose rules
//! the engine follows.

use core::fmt;

use samara_linux::proc_file::read_text_piece;
use samara_mm::KernelVersion;
use serde_json::Value;

/// A kernel's name and version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The release as `uname -r` prints it. Empty if no source names it.
    pub release: String,
    /// The full version. The newest that the engine knows if no source names it.
    pub version: KernelVersion,
}

impl Kernel {
    /// Returns the running kernel.
    pub fn running() -> Self {
        let read = |path| read_text_piece(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        // Debian names the stable release in the first file, Ubuntu in the second, which other
        // distributions lack.
        let version = read("/proc/sys/kernel/version") + " " + &read("/proc/version_signature");
        Self::told(&release, &version)
    }

    /// Returns the kernel that describes itself like this: the output of `uname -r`, and the texts
    /// that may name the stable release.
    fn told(release: &str, version: &str) -> Self {
        Kernel {
            release: release.trim().to_owned(),
            version: KernelVersion::from_uname(release, version).unwrap_or_default(),
        }
    }

    /// Returns the kernel that a record's description names. Records of earlier versions have only
    /// the release.
    pub(crate) fn of_record(description: &Value) -> Self {
        let text = |field: &str| description[field].as_str().unwrap_or_default();
        let told = Self::told(text("kernel"), "");
        let version = text("kernel_version").parse().unwrap_or(told.version);
        Kernel { version, ..told }
    }
}

/// `Linux 6.1.192 (6.1.0-57-cloud-amd64)`.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.release.as_str() {
            "" => write!(
                f,
                "unknown: the rules of Linux {} are followed",
                self.version
            ),
            release => write!(f, "Linux {} ({release})", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_stable_releases() {
        for (release, texts, shown) in [
            (
                "6.1.0-57-cloud-amd64\n",
                "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)\n ",
                "Linux 6.1.192 (6.1.0-57-cloud-amd64)",
            ),
            (
                "5.15.0-91-generic\n",
                "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023\n Ubuntu 5.15.0-91.101-generic 5.15.131\n",
                "Linux 5.15.131 (5.15.0-91-generic)",
            ),
            (
                "6.12.9-200.fc41.x86_64\n",
                "#1 SMP PREEMPT_DYNAMIC Thu Jan  9 16:05:40 UTC 2025\n ",
                "Linux 6.12.9 (6.12.9-200.fc41.x86_64)",
            ),
            ("6.18.44\n", "#1 SMP\n ", "Linux 6.18.44 (6.18.44)"),
            ("6.18.0-mine\n", "#1 SMP\n ", "Linux 6.18 (6.18.0-mine)"),
            ("", "", "unknown: the rules of Linux 6.18 are followed"),
        ] {
            assert_eq!(Kernel::told(release, texts).to_string(), shown);
        }
    }

    #[test]
    fn records_keep_the_full_version() {
        let new = serde_json::json!({ "kernel": "6.1.0-57-amd64", "kernel_version": "6.1.192" });
        let version = Kernel::of_record(&new).version;
        assert_eq!(version, KernelVersion::stable(6, 1, 192));
        let old = serde_json::json!({ "kernel": "6.12.94+deb13-amd64" });
        let version = Kernel::of_record(&old).version;
        assert_eq!(version, KernelVersion::stable(6, 12, 94));
        let none = Kernel::of_record(&serde_json::json!({}));
        assert_eq!(none, Kernel::default());
    }
}
