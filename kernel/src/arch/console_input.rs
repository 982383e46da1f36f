//! The input buffer of the console. The device's interrupt fills it, and
//! [`Machine::console_read`](super::Machine::console_read) takes bytes from it.

use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::without_interrupts;

struct Received {
    bytes: [u8; 4096],
    first: usize,
    len: usize,
}

static RECEIVED: Mutex<Received> = Mutex::new(Received { bytes: [0; 4096], first: 0, len: 0 });
/// `true` if the buffer may hold bytes. When it is `false`, the buffer and the device are empty,
/// and the device interrupts for its next byte.
static HAS_INPUT: AtomicBool = AtomicBool::new(true);

/// Moves bytes from the device to the buffer while there is room. The device keeps the others.
/// Returns `false` if the buffer is full. Interrupts must be off.
pub(super) fn fill(mut next: impl FnMut() -> Option<u8>) -> bool {
    let mut received = RECEIVED.lock();
    let all = loop {
        if received.len == received.bytes.len() {
            break false;
        }
        let Some(byte) = next() else { break true };
        let at = (received.first + received.len) % received.bytes.len();
        received.bytes[at] = byte;
        received.len += 1;
    };
    HAS_INPUT.store(received.len > 0, Ordering::SeqCst);
    all
}

/// Takes the first byte of the buffer. If the buffer is empty, calls `receive`, which calls
/// [`fill`].
pub(super) fn read(receive: fn()) -> Option<u8> {
    if !HAS_INPUT.load(Ordering::SeqCst) {
        return None;
    }
    without_interrupts(|| {
        take().or_else(|| {
            receive();
            take()
        })
    })
}

fn take() -> Option<u8> {
    let mut received = RECEIVED.lock();
    let byte = *received.bytes.get(received.first).filter(|_| received.len > 0)?;
    received.first = (received.first + 1) % received.bytes.len();
    received.len -= 1;
    Some(byte)
}
