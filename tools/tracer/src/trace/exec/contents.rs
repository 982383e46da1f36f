//! The contents of the files of a program.

use std::fs::File as DiskFile;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use samara_linux::Tid;
use samara_mm::exec::Image;
use samara_mm::{Errno, FileKind};

use crate::trace::files;

static ASIDE: AtomicBool = AtomicBool::new(false);

/// Makes a helper thread read programs' files from now on, with a time limit. A process that is
/// asked for each opened file (`fanotify(7)`), or that serves the file system (`fuse(4)`), may be
/// traced itself. It would then stand still until this tracer continues.
pub(crate) fn read_aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// A file on the machine.
pub(super) struct OnDisk(pub(super) Rc<Contents>);

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Contents {
    file: DiskFile,
    length: u64,
    pub(super) kind: FileKind,
    /// The start of the file with the headers, which are read one by one.
    head: Vec<u8>,
}

impl Contents {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        Self::soon(move || Self::of(DiskFile::open(path)?))
    }

    /// Returns the contents that `read` delivers within the time limit, once [another process may
    /// be asked](read_aside).
    pub(super) fn soon(
        read: impl FnOnce() -> io::Result<Self> + Send + 'static,
    ) -> io::Result<Self> {
        const LONGEST: Duration = Duration::from_secs(2);
        if !ASIDE.load(Ordering::Relaxed) {
            return read();
        }
        let (tell, told) = mpsc::sync_channel(1);
        thread::Builder::new().spawn(move || tell.send(read()))?;
        let read = told.recv_timeout(LONGEST);
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    pub(super) fn of(file: DiskFile) -> io::Result<Self> {
        let (kind, length) = files::kind_and_length(&file)?;
        let mut head = vec![0; 4096];
        let read = file.read_at(&mut head, 0)?;
        head.truncate(read);
        Ok(Self {
            file,
            length,
            kind,
            head,
        })
    }

    /// Returns the program that a process runs. `None` if it may not be read.
    pub(crate) fn of_program(tid: Tid) -> Option<Self> {
        Self::open(Path::new(&format!("/proc/{tid}/exe"))).ok()
    }

    /// Returns the first bytes of the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }
}

impl Image for OnDisk {
    fn len(&self) -> u64 {
        self.0.length
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(into.len());
        if let Some(known) = self.0.head.get(start..end) {
            into.copy_from_slice(known);
            return Ok(known.len());
        }
        let errno = |error: io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
        self.0.file.read_at(into, offset).map_err(errno)
    }
}
