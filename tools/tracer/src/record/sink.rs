//! The end of a growing file: whole records, written in chunks.
//!
//! # Invariants
//! - A chunk holds whole records. So an interrupted file is whole, except for its last chunk.
//! - A record is in the file after [`PAUSE`] at the latest, even while the program rests, because a
//!   thread writes regularly. So a kill loses less than a second.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use samara_record::head_of_chunk;

use crate::tell::unless_closed;

/// A chunk is written when it holds this many bytes …
const CHUNK: usize = 32 << 10;
/// … or when this much time has passed, if it is not empty.
const PAUSE: Duration = Duration::from_millis(500);

/// The file, and the records that it does not hold yet.
#[derive(Debug)]
struct Tail {
    file: File,
    chunk: Vec<u8>,
    chunks: u32,
    /// Bytes written, headers included.
    length: u64,
    /// The first error. It is kept until the end, so that the traced program runs on.
    error: Option<io::Error>,
    closed: bool,
}

impl Tail {
    fn flush(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let head = head_of_chunk(self.chunks, &self.chunk);
        if self.error.is_none() {
            let written = self
                .file
                .write_all(&head)
                .and_then(|()| self.file.write_all(&self.chunk));
            match written {
                Ok(()) => self.length += (head.len() + self.chunk.len()) as u64,
                Err(error) => self.error = Some(error),
            }
        }
        self.chunks += 1;
        self.chunk.clear();
    }
}

/// The tail, shared with the thread that writes it regularly.
#[derive(Debug)]
struct Shared {
    tail: Mutex<Tail>,
    closed: Condvar,
}

impl Shared {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        // No panic leaves a tail half changed.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The destination of records.
#[derive(Debug)]
pub(super) struct Sink {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl Sink {
    /// Takes over a file that holds `length` bytes, and appends chunks to it. With `regularly`, a
    /// thread writes chunks even while no record arrives.
    pub(super) fn new(file: File, length: u64, regularly: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            tail: Mutex::new(Tail {
                file,
                chunk: Vec::with_capacity(CHUNK * 2),
                chunks: 0,
                length,
                error: None,
                closed: false,
            }),
            closed: Condvar::new(),
        });
        let writer = if regularly {
            Some(start_writing(Arc::clone(&shared))?)
        } else {
            None
        };
        Ok(Self { shared, writer })
    }

    /// Appends whole records, and empties `records`.
    pub(super) fn append(&mut self, records: &mut Vec<u8>) {
        let mut tail = self.shared.tail();
        tail.chunk.append(records);
        if tail.chunk.len() >= CHUNK {
            tail.flush();
        }
    }

    /// Returns `true` if no record is in the file yet.
    pub(super) fn is_empty(&self) -> bool {
        self.shared.tail().chunks == 0
    }

    /// Writes the remaining records, and returns the file's length in bytes.
    ///
    /// # Errors
    /// The first error of any write.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.close();
        let mut tail = self.shared.tail();
        tail.flush();
        unless_closed(tail.error.take().map_or(Ok(()), Err))?;
        Ok(tail.length)
    }

    fn close(&mut self) {
        self.shared.tail().closed = true;
        self.shared.closed.notify_all();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.close();
    }
}

/// Starts the thread that writes regularly. It takes no signals, because this program's signals
/// interrupt the waits of the thread that traces.
fn start_writing(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let write = move || {
        let mut tail = shared.tail();
        while !tail.closed {
            let waited = shared.closed.wait_timeout(tail, PAUSE);
            tail = waited.unwrap_or_else(PoisonError::into_inner).0;
            tail.flush();
        }
    };
    // SAFETY: all zeros is a valid set of signals, which the first call fills. The masks belong to
    // this thread, and a new thread inherits the mask in force while it is made.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        let started = thread::Builder::new().name("record".into()).spawn(write);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}
