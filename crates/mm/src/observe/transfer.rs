//! Bytes from one process to another, as `process_vm_readv(2)` and `process_vm_writev(2)` copy them.

use crate::process::{Platform, Process};

/// Bytes that are on their way at once: on the stack, which is small in a kernel.
const PIECE: usize = 512;

impl<P: Platform> Process<P> {
    /// Copies `len` bytes from `addr` on to `to_addr` of another process, which may be this one and may run on another machine; faults are taken on both sides. The number of bytes copied:
    /// fewer at the first that cannot be read or written. Ranges that overlap in one process are copied upwards, piece by piece.
    pub fn copy_to<Q: Platform>(
        &self,
        addr: u64,
        to: &Process<Q>,
        to_addr: u64,
        len: usize,
    ) -> usize {
        let mut bytes = [0; PIECE];
        let mut done = 0;
        while done < len {
            let piece = &mut bytes[..PIECE.min(len - done)];
            let (Some(from), Some(into)) = (
                addr.checked_add(done as u64),
                to_addr.checked_add(done as u64),
            ) else {
                break;
            };
            let read = self.copy_out(from, piece);
            let written = to.copy_in(into, &piece[..read]);
            done += written;
            if written < piece.len() {
                break;
            }
        }
        done
    }
}
