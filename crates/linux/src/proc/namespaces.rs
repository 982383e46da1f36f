//! Files and processes as another process names them, which has a root or a namespace of its own.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::status_field;
use crate::{Tid, proc_file};

/// Opens the file that `path` names for a process with this root. Links cannot lead out of it.
///
/// # Errors
/// Those of opening; `ENOSYS` before Linux 5.6.
pub fn open_below(root: &Path, path: &Path) -> io::Result<fs::File> {
    let root = fs::File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(root)?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = libc::O_CLOEXEC as u64;
    how.resolve = libc::RESOLVE_IN_ROOT;
    // SAFETY: `path` ends with a zero byte, and `how` has the size that is told; the descriptor is ours alone.
    unsafe {
        let (at, size) = (root.as_raw_fd(), size_of_val(&how));
        match libc::syscall(libc::SYS_openat2, at, path.as_ptr(), &raw const how, size) {
            -1 => Err(io::Error::last_os_error()),
            opened => Ok(fs::File::from_raw_fd(opened as i32)),
        }
    }
}

/// Returns the process or thread that `caller` calls by a number of its own namespace; the number
/// itself if nothing has it there.
pub fn named_by(caller: Tid, number: Tid) -> Tid {
    /// `NS_GET_PID_FROM_PIDNS`, since Linux 6.11.
    const TRANSLATE: libc::Ioctl = 0x8004_b706u32 as libc::Ioctl;
    let link = format!("/proc/{caller}/ns/pid");
    let own = fs::read_link("/proc/self/ns/pid");
    if number <= 0 || matches!((own, fs::read_link(&link)), (Ok(own), Ok(its)) if own == its) {
        return number;
    }
    let told = fs::File::open(&link).map(|namespace| {
        // SAFETY: takes a number.
        unsafe { libc::ioctl(namespace.as_raw_fd(), TRANSLATE, number) }
    });
    match told {
        Ok(known) if known > 0 => known,
        _ => numbered(caller, number).unwrap_or(number),
    }
}

/// Finds the number by a search: returns the process of the same namespace that has that number
/// there.
fn numbered(caller: Tid, number: Tid) -> Option<Tid> {
    let namespace = |tid| fs::read_link(format!("/proc/{tid}/ns/pid")).ok();
    let wanted = namespace(caller)?;
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.find(|&process: &Tid| {
        let status = proc_file::read_text_piece(format!("/proc/{process}/status"));
        let innermost = status.ok().and_then(|status| {
            let numbers = status_field(&status, "NSpid:")?;
            numbers.split_ascii_whitespace().next_back()?.parse().ok()
        });
        innermost == Some(number) && namespace(process).is_some_and(|its| its == wanted)
    })
}
