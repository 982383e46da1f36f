//! Pipes and FIFOs.

use alloc::collections::VecDeque;

use samara_mm::Errno;
use spin::Mutex;

use super::open_file::Transfer;
use crate::process::wait::WaitQueue;

/// The most bytes that a pipe holds.
const CAPACITY: usize = 65_536;
/// A write of at most this many bytes is atomic.
const PIPE_BUF: usize = 4096;

#[derive(Default)]
pub struct Pipe {
    state: Mutex<State>,
    changed: WaitQueue,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    readers: u32,
    writers: u32,
    /// The numbers of opens for reading and for writing. A thread that opens a FIFO waits for the
    /// other side's number to change.
    opens: [u32; 2],
}

impl Pipe {
    pub fn queue(&self) -> &WaitQueue {
        &self.changed
    }

    /// Opens one side or both. Returns the number of opens of the other side, without those that
    /// are still open. The other side is that of the readers if this open is for writing only.
    pub(super) fn open(&self, read: bool, write: bool) -> u32 {
        let mut state = self.state.lock();
        state.readers += u32::from(read);
        state.writers += u32::from(write);
        state.opens[0] += u32::from(read);
        state.opens[1] += u32::from(write);
        let others = if read { state.writers } else { state.readers };
        let others = state.opens[usize::from(read)].wrapping_sub(others);
        drop(state);
        self.changed.wake();
        others
    }

    pub(super) fn close(&self, read: bool, write: bool) {
        let mut state = self.state.lock();
        state.readers -= u32::from(read);
        state.writers -= u32::from(write);
        if state.readers == 0 {
            state.bytes = VecDeque::new();
        }
        drop(state);
        self.changed.wake();
    }

    /// Returns the number of opens for writing, or for reading.
    pub fn opens(&self, writers: bool) -> u32 {
        self.state.lock().opens[usize::from(writers)]
    }

    /// Returns the number of writers, or of readers.
    pub fn count(&self, writers: bool) -> u32 {
        let state = self.state.lock();
        if writers { state.writers } else { state.readers }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> Transfer {
        let mut state = self.state.lock();
        if state.bytes.is_empty() && state.writers > 0 && !into.is_empty() {
            return Transfer::WouldBlock;
        }
        let done = state.bytes.len().min(into.len());
        for (to, byte) in into.iter_mut().zip(state.bytes.drain(..done)) {
            *to = byte;
        }
        drop(state);
        self.changed.wake();
        Transfer::Done(done)
    }

    pub(super) fn write(&self, from: &[u8]) -> Result<Transfer, Errno> {
        let mut state = self.state.lock();
        if state.readers == 0 {
            return Err(Errno::EPIPE);
        }
        let room = CAPACITY - state.bytes.len();
        let needed = if from.len() <= PIPE_BUF { from.len() } else { 1 };
        if room < needed {
            return Ok(Transfer::WouldBlock);
        }
        let done = room.min(from.len());
        state.bytes.try_reserve(done).map_err(|_| Errno::ENOMEM)?;
        state.bytes.extend(&from[..done]);
        drop(state);
        self.changed.wake();
        Ok(Transfer::Done(done))
    }

    pub(super) fn has_bytes(&self) -> bool {
        let state = self.state.lock();
        !state.bytes.is_empty() || state.writers == 0
    }

    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
        CAPACITY - state.bytes.len() >= PIPE_BUF || state.readers == 0
    }

    pub(super) fn is_hung_up(&self, writer: bool) -> bool {
        let state = self.state.lock();
        if writer { state.readers == 0 } else { state.writers == 0 }
    }

    /// Returns the number of bytes that can be read.
    pub fn len(&self) -> usize {
        self.state.lock().bytes.len()
    }
}
