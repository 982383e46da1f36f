//! Two serial ports: the first is the console, the second takes the kernel's log.

use spin::Mutex;
use x86_64::instructions::port::Port;

use crate::arch::{input, without_interrupts};

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
    // SAFETY: ports of the two devices.
    unsafe { Port::new(port).write(value) }
}

fn read(port: u16) -> u8 {
    // SAFETY: as above.
    unsafe { Port::new(port).read() }
}

/// Eight bits, no parity; the console interrupts when something has come. The queues stay off: the device drops what has come when they are switched on, and
/// somebody may have typed already.
pub(super) fn start() {
    for port in [CONSOLE, LOG] {
        write(port + INTERRUPTS, 0);
        write(port + LINE, 3);
        write(port + MODEM, 0x0b);
    }
    write(CONSOLE + INTERRUPTS, 1);
}

fn send(port: u16, bytes: &[u8]) {
    for &byte in bytes {
        while read(port + STATUS) & CAN_SEND == 0 {
            core::hint::spin_loop();
        }
        write(port + DATA, byte);
    }
}

static SENDING: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

pub(in crate::arch) fn console_write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[0].lock();
        send(CONSOLE, bytes);
    });
}

pub(in crate::arch) fn log_write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[1].lock();
        send(LOG, bytes);
    });
}

/// Moves received bytes from the device to the input buffer.
pub(in crate::arch) fn receive() {
    input::fill(|| (read(CONSOLE + STATUS) & RECEIVED != 0).then(|| read(CONSOLE + DATA)));
}
