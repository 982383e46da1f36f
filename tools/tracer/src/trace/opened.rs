//! Which open file description a descriptor of a traced program stands for.
//!
//! What `dup(2)` makes is the same; a file that is closed and opened again at the same number is another. `kcmp(2)` tells, but only of
//! descriptors that are there: so one of our own is held of each that is mapped. A mapping keeps the description anyway, so that nothing ends
//! later for it (locks, leases, space on disk); it is let go with the last mapping.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;

use samara_linux::Tid;

/// An open file description.
#[derive(Debug)]
pub(crate) struct Opened {
    held: Option<OwnedFd>,
    /// The descriptor's number stands for it where none is held.
    number: i32,
    /// A process serves the file.
    served: bool,
}

impl Opened {
    /// The most descriptors that are held at a time.
    pub(crate) const MOST: usize = 64;

    /// The one behind a descriptor of a stopped thread; held if there is `room`, and if it may be.
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

    /// The number that stood for it first.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// Returns `true` if it is of a kind of file system of which nothing may be executed, whatever
    /// the mount options: pipes, sockets, `/proc`.
    pub(crate) fn is_noexec(&self, tid: Tid, descriptor: i32) -> bool {
        match &self.held {
            Some(held) => refuses_execution(held),
            None => {
                let copy = Self::of(tid, descriptor, true, self.served);
                copy.is_noexec_now() == Some(true)
            }
        }
    }

    /// Returns `true` if nothing of it may be executed now, by its kind or by its mount. Returns
    /// `None` if no descriptor is held that could show it.
    pub(crate) fn is_noexec_now(&self) -> Option<bool> {
        self.held.as_ref().map(refuses_execution)
    }

    /// Closes the held descriptors. A process that serves the file is notified, and the closing
    /// thread waits for its answer, even when killed. That is another thread, because the server
    /// may stand still, or wait for this one. Only the end of this program still waits for it.
    pub(crate) fn release(&mut self) {
        let held = self.held.take();
        if held.is_some() && self.served {
            let _ = thread::Builder::new().spawn(move || drop(held));
        }
    }

    /// Returns `true` if it is the one behind this descriptor of a stopped thread, and `None` if
    /// none is held.
    pub(crate) fn is(&self, tid: Tid, descriptor: i32) -> Option<bool> {
        Some(match self.compared(tid, descriptor)? {
            // The kernel was built without it.
            -1 => self.number == descriptor,
            order => order == 0,
        })
    }

    /// The same of a descriptor that may be closed. Where nothing can be told, it is not.
    pub(crate) fn is_surely(&self, tid: Tid, descriptor: i32) -> bool {
        self.compared(tid, descriptor) == Some(0)
    }

    /// Returns the result of `kcmp`: 0 if they are the same, -1 if it does not know. Returns `None`
    /// if none is held.
    fn compared(&self, tid: Tid, descriptor: i32) -> Option<libc::c_long> {
        const KCMP_FILE: libc::c_int = 0;
        let held = self.held.as_ref()?;
        // It stays the same, and would be asked for at each call.
        static OWN: OnceLock<u32> = OnceLock::new();
        let own = *OWN.get_or_init(std::process::id);
        // SAFETY: takes integers only.
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

/// Asks the kernel for a mapping that grows down, which no file can have. That it may not be executed is told before that, and no driver is reached.
fn refuses_execution(file: &OwnedFd) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_GROWSDOWN;
    let (at, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: takes no memory of ours: what is mapped, if anything is, lies where there was nothing.
    let mapped = unsafe { libc::mmap(at, 1, libc::PROT_EXEC, flags, descriptor, 0) };
    if mapped == libc::MAP_FAILED {
        return std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    }
    // SAFETY: the mapping made above, which no other code knows.
    unsafe { libc::munmap(mapped, 1) };
    false
}

/// A descriptor of our own for the same open file description.
fn copy(tid: Tid, descriptor: i32) -> Option<OwnedFd> {
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: takes integers only; the descriptor is ours alone.
    let open = |flags: libc::c_int| unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, tid, flags) as i32;
        (pidfd >= 0).then(|| OwnedFd::from_raw_fd(pidfd))
    };
    // Before Linux 6.9 only the first thread of a process can be named.
    let pidfd = open(PIDFD_THREAD).or_else(|| open(0))?;
    // SAFETY: takes integers only; the descriptor is ours alone.
    unsafe {
        let copy = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), descriptor, 0) as i32;
        (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))
    }
}
