//! The console on the first serial port, and the kernel log on the second.

use x86_64::instructions::port::Port;

use crate::arch::serial;

const CONSOLE: u16 = 0x3f8;
const LOG: u16 = 0x2f8;

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const LINE: u16 = 3;
const MODEM: u16 = 4;
const STATUS: u16 = 5;
const RECEIVED: u8 = 1;
const CAN_SEND: u8 = 0x20;

fn write(port: u16, value: u8) {
    // SAFETY: a port of the two devices.
    unsafe { Port::new(port).write(value) }
}

fn read(port: u16) -> u8 {
    // SAFETY: as above.
    unsafe { Port::new(port).read() }
}

/// Sets the format to eight bits without parity, and enables the console's receive interrupt.
///
/// The FIFOs stay disabled, because the device drops received bytes when they are enabled.
pub(super) fn start() {
    for port in [CONSOLE, LOG] {
        write(port + INTERRUPTS, 0);
        write(port + LINE, 3);
        write(port + MODEM, 0x0b);
    }
    write(CONSOLE + INTERRUPTS, 1);
}

fn try_send_to(port: u16, byte: u8) -> bool {
    let room = read(port + STATUS) & CAN_SEND != 0;
    if room {
        write(port + DATA, byte);
    }
    room
}

/// Sends a byte if the device has room. Returns `true` if it has.
pub(in crate::arch) fn try_send(byte: u8) -> bool {
    try_send_to(CONSOLE, byte)
}

pub(in crate::arch) fn log(bytes: &[u8]) {
    serial::send(bytes, |byte| try_send_to(LOG, byte));
}

/// Returns the next received byte.
pub(in crate::arch) fn receive_byte() -> Option<u8> {
    (read(CONSOLE + STATUS) & RECEIVED != 0).then(|| read(CONSOLE + DATA))
}

pub(in crate::arch) fn set_interrupt(on: bool) {
    write(CONSOLE + INTERRUPTS, on.into());
}
