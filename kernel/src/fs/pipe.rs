//! Pipes.

use alloc::collections::VecDeque;

use samara_mm::Errno;
use spin::Mutex;

use super::open_file::Transfer;
use crate::process::wait::WaitQueue;

/// SigFrame that a pipe holds.
const CAPACITY: usize = 65_536;
/// A write of at most so many bytes is not mixed with others.
const WHOLE: usize = 4096;

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
    /// Counts all that have ever been, for whoever waits for the other side.
    ever: [u32; 2],
}

impl Pipe {
    pub fn queue(&self) -> &WaitQueue {
        &self.changed
    }

    /// Returns how often the other side (readers, if this is for writing only) has been opened, those that are there not counted.
    pub(super) fn open(&self, read: bool, write: bool) -> u32 {
        let mut state = self.state.lock();
        state.readers += u32::from(read);
        state.writers += u32::from(write);
        state.ever[0] += u32::from(read);
        state.ever[1] += u32::from(write);
        let others = if read { state.writers } else { state.readers };
        let others = state.ever[usize::from(read)].wrapping_sub(others);
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

    /// How many readers, or writers, there have been.
    pub fn ever(&self, writers: bool) -> u32 {
        self.state.lock().ever[usize::from(writers)]
    }

    /// Readers, or writers, that there are.
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
        let needed = if from.len() <= WHOLE { from.len() } else { 1 };
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
        CAPACITY - state.bytes.len() >= WHOLE || state.readers == 0
    }

    pub(super) fn is_hung_up(&self, writer: bool) -> bool {
        let state = self.state.lock();
        if writer { state.readers == 0 } else { state.writers == 0 }
    }

    /// SigFrame that can be read.
    pub fn len(&self) -> usize {
        self.state.lock().bytes.len()
    }
}
