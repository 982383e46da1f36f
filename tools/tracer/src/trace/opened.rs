//! The open file description behind a descriptor of a traced program.
//!
//! `dup(2)` gives the same description. A file that is closed and opened again at the same number
//! has another one. `kcmp(2)` compares descriptions, but only of open descriptors. So the tracer
//! holds a descriptor of its own for each mapped file. A mapping keeps the description anyway, so
//! nothing ends later because of it (locks, leases, disk space). The descriptor is closed with the
//! last mapping.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;

use samara_linux::Tid;

/// An open file description.
#[derive(Debug)]
pub(crate) struct Opened {
    held: Option<OwnedFd>,
    /// The descriptor's number, which stands for the description if none is held.
    number: i32,
    /// A process serves the file.
    served: bool,
}

impl Opened {
    /// The most descriptors that are held at a time.
    pub(crate) const MOST: usize = 64;

    /// Returns the one behind a descriptor of a stopped thread. It is held if there is `room`, and
    /// if the kernel allows it.
    pub(crate) fn of(tid: Tid, descriptor: i32, room: bool, served: bool) -> Self {
        Self {
            held: if room { copy(tid, descriptor) } else { None },
            number: descriptor,
            served,
        }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the first descriptor number that stood for it.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// Returns `true` for a kind of file system that forbids execution whatever the mount says:
    /// pipes, sockets, `/proc`.
    pub(crate) fn is_noexec(&self, tid: Tid, descriptor: i32) -> bool {
        match &self.held {
            Some(held) => refuses_execution(held),
            None => {
                let copy = Self::of(tid, descriptor, true, self.served);
                copy.is_noexec_now() == Some(true)
            }
        }
    }

    /// Returns `true` if its kind or its mount forbids execution now. `None` if no descriptor is
    /// held.
    pub(crate) fn is_noexec_now(&self) -> Option<bool> {
        self.held.as_ref().map(refuses_execution)
    }

    /// Closes the held descriptor. The kernel reports that to a process that serves the file, and
    /// waits for its answer, even if killed. So another thread closes: the server may stand still,
    /// or wait for this thread. Only the end of this program still waits for it.
    pub(crate) fn release(&mut self) {
        let held = self.held.take();
        if held.is_some() && self.served {
            let _ = thread::Builder::new().spawn(move || drop(held));
        }
    }

    /// Returns `true` if it is the one behind this descriptor of a stopped thread. `None` if no
    /// descriptor is held.
    pub(crate) fn is(&self, tid: Tid, descriptor: i32) -> Option<bool> {
        Some(match self.compared(tid, descriptor)? {
            // The kernel was built without it.
            -1 => self.number == descriptor,
            order => order == 0,
        })
    }

    /// Returns the same for a descriptor that may be closed, and `false` if nothing can be
    /// determined.
    pub(crate) fn is_surely(&self, tid: Tid, descriptor: i32) -> bool {
        self.compared(tid, descriptor) == Some(0)
    }

    /// Returns the answer of `kcmp`: 0 for the same description, -1 if it cannot tell. `None` if no
    /// descriptor is held.
    fn compared(&self, tid: Tid, descriptor: i32) -> Option<libc::c_long> {
        const KCMP_FILE: libc::c_int = 0;
        let held = self.held.as_ref()?;
        // The number never changes, and would be asked for at each call.
        static OWN: OnceLock<u32> = OnceLock::new();
        let own = *OWN.get_or_init(std::process::id);
        // SAFETY: the call takes only integers.
        Some(unsafe {
            libc::syscall(
                libc::SYS_kcmp,
                own,
                tid,
                KCMP_FILE,
                held.as_raw_fd(),
                descriptor,
            )
        })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns `true` if the kernel forbids execution of a file. Asks for a mapping that grows down,
/// which no file can have. The kernel checks execution before that, and no driver is reached.
fn refuses_execution(file: &OwnedFd) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_GROWSDOWN;
    let (at, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: the call changes no memory of ours: it maps only where nothing was.
    let mapped = unsafe { libc::mmap(at, 1, libc::PROT_EXEC, flags, descriptor, 0) };
    if mapped == libc::MAP_FAILED {
        return std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    }
    // SAFETY: the mapping was made above, and has no other user.
    unsafe { libc::munmap(mapped, 1) };
    false
}

/// Returns a descriptor of our own for the same open file description.
fn copy(tid: Tid, descriptor: i32) -> Option<OwnedFd> {
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: the call takes only integers. The descriptor is ours alone.
    let open = |flags: libc::c_int| unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, tid, flags) as i32;
        (pidfd >= 0).then(|| OwnedFd::from_raw_fd(pidfd))
    };
    // Before Linux 6.9, only the first thread of a process can be named.
    let pidfd = open(PIDFD_THREAD).or_else(|| open(0))?;
    // SAFETY: the call takes only integers. The descriptor is ours alone.
    unsafe {
        let copy = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0) as i32;
        (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))
    }
}
