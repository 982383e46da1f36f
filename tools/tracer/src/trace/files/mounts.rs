//! The file systems that a process serves, recognised without asking it: it may be stopped, or wait
//! for its tracer.

use std::collections::HashSet;

use samara_linux::Tid;

/// The knowledge about file systems, by their device numbers.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// File systems that the kernel itself serves. If such a number is reused for another one,
    /// `statfs(2)` shows that, if it is answered.
    by_kernel: HashSet<u64>,
}

impl Served {
    /// Returns `true` if a process serves a regular file.
    pub(super) fn holds_file(&mut self, tid: Tid, object: &libc::stat64) -> bool {
        object.st_mode & libc::S_IFMT == libc::S_IFREG && self.holds(tid, object.st_dev)
    }

    /// Returns `true` if a process serves this file system, where the thread sees it mounted.
    pub(super) fn holds(&mut self, tid: Tid, device: u64) -> bool {
        // A file system with a disk is examined by `statfs(2)`: hardly any of those is served by a
        // process.
        if libc::major(device) != 0 || self.by_kernel.contains(&device) {
            return false;
        }
        let served = is_fuse(tid, device);
        if !served {
            self.by_kernel.insert(device);
        }
        served
    }
}

/// Returns `true` if the device is FUSE by `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
fn is_fuse(tid: Tid, device: u64) -> bool {
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    let listed = samara_linux::proc_file::read_text(format!("/proc/{tid}/mountinfo"));
    listed.is_ok_and(|text| {
        let mut systems = text.lines().filter_map(|line| {
            let (place, system) = line.split_once(" - ")?;
            (place.split(' ').nth(2) == Some(&device)).then_some(system)
        });
        systems.any(|system| system.starts_with("fuse ") || system.starts_with("fuse."))
    })
}
