//! Pictures of what is traced: drawn from its record, at the end.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use samara_tracer::record::Reader;

use crate::picture::{self, Canvases};

use super::options::TraceOptions;

/// Files that wait for their pictures, and the record from which these are drawn.
pub(super) struct Pictured {
    canvases: Canvases,
    record: PathBuf,
    /// Keeps the record while it is in memory.
    _memory: Option<OwnedFd>,
}

impl Pictured {
    /// Creates the files of the pictures that are asked for, if any. Without a file for the record, it is kept in memory.
    ///
    /// # Errors
    /// What to complain of.
    pub(super) fn prepare(options: &TraceOptions) -> Result<Option<Self>, String> {
        if !options.pictures.any() {
            return Ok(None);
        }
        let canvases = options.pictures.open()?;
        let (record, memory) = match &options.record {
            Some(file) => (file.clone(), None),
            None => {
                let memory =
                    memory().map_err(|error| format!("no memory for the record: {error}"))?;
                let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
                (path.into(), Some(memory))
            }
        };
        Ok(Some(Self {
            canvases,
            record,
            _memory: memory,
        }))
    }

    /// Returns the path of the record.
    pub(super) fn record(&self) -> &Path {
        &self.record
    }

    /// Draws what was recorded, once the record is complete.
    ///
    /// # Errors
    /// What to complain of.
    pub(super) fn draw(self) -> Result<(), String> {
        let reader = Reader::open(&self.record)
            .map_err(|damage| format!("nothing can be drawn: the record {damage}"))?;
        self.canvases.draw(&picture::film(&reader))
    }
}

/// Returns a file in memory that the traced program does not inherit.
fn memory() -> io::Result<OwnedFd> {
    // SAFETY: the name is a string with its end; the call takes nothing else.
    let descriptor = unsafe { libc::memfd_create(c"record".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
