//! The console and the kernel log on serial devices. Each architecture's `console` sends and
//! receives single bytes.

use spin::Mutex;

use super::this::console;
use super::{console_input, without_interrupts};

/// The locks of the console's output and of the log.
static SENDING: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// Writes bytes to the console, and waits until the device has taken them.
pub(super) fn write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[0].lock();
        send(bytes, console::try_send);
    });
}

/// Writes bytes to the kernel log.
pub(super) fn log(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[1].lock();
        console::log(bytes);
    });
}

/// Sends bytes, and repeats each until `try_send` succeeds.
pub(super) fn send(bytes: &[u8], try_send: impl Fn(u8) -> bool) {
    for &byte in bytes {
        while !try_send(byte) {
            core::hint::spin_loop();
        }
    }
}

/// Moves received bytes from the device to the input buffer. Disables the device's interrupt while
/// the buffer is full. Interrupts must be off.
pub(super) fn receive() {
    let all = console_input::fill(console::receive_byte);
    console::set_interrupt(all);
}

/// Calls `write_text` with pieces of `bytes` as C strings, which semihosting takes.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn each_c_string(bytes: &[u8], write_text: impl Fn(*const u8)) {
    for chunk in bytes.chunks(255) {
        let mut text = [0u8; 256];
        text[..chunk.len()].copy_from_slice(chunk);
        write_text(text.as_ptr());
    }
}
