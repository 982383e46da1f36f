//! Resource limits of processes.

use std::io;

use crate::{Tid, proc_file};

/// The soft resource limits that concern memory, in bytes; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawLimits {
    /// `RLIMIT_AS`.
    pub address_space: u64,
    /// `RLIMIT_DATA`.
    pub data: u64,
    /// `RLIMIT_STACK`.
    pub stack: u64,
    /// `RLIMIT_MEMLOCK`.
    pub memlock: u64,
}

/// Returns a process's limits.
///
/// # Errors
/// Those of reading; `InvalidData` for a text that does not list them.
pub fn limits(tid: Tid) -> io::Result<RawLimits> {
    // The call is refused for another user's process without CAP_SYS_RESOURCE; the file is not.
    asked_limits(tid)
        .or_else(|_| listed_limits(&proc_file::read_text_piece(format!("/proc/{tid}/limits"))?))
}

/// Reads `/proc/PID/limits`: a name of 26 columns, the soft limit, the hard one, the unit.
fn listed_limits(text: &str) -> io::Result<RawLimits> {
    let one = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        match line.and_then(|line| line.split_ascii_whitespace().next()) {
            Some("unlimited") => Ok(u64::MAX),
            Some(number) => number
                .parse()
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    Ok(RawLimits {
        address_space: one("Max address space ")?,
        data: one("Max data size ")?,
        stack: one("Max stack size ")?,
        memlock: one("Max locked memory ")?,
    })
}

fn asked_limits(tid: Tid) -> io::Result<RawLimits> {
    let one = |resource| {
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: asks only (no new limit); `limit` is a valid place for the answer.
        let result = unsafe { libc::prlimit64(tid, resource, std::ptr::null(), &mut limit) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(limit.rlim_cur)
    };
    Ok(RawLimits {
        address_space: one(libc::RLIMIT_AS)?,
        data: one(libc::RLIMIT_DATA)?,
        stack: one(libc::RLIMIT_STACK)?,
        memlock: one(libc::RLIMIT_MEMLOCK)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_the_call_agree() {
        let listed = proc_file::read_text("/proc/self/limits").unwrap();
        let asked = asked_limits(std::process::id() as Tid).unwrap();
        assert_eq!(listed_limits(&listed).unwrap(), asked);
    }
}
