//! Two serial ports: the first is the console, the second takes the kernel's log.

use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;
use x86_64::instructions::interrupts::without_interrupts;
use x86_64::instructions::port::Port;

const CONSOLE: u16 = 0x3f8;
const LOG: u16 = 0x2f8;

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
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

/// Eight bits, no parity, queues on; the console interrupts when something has come.
pub(super) fn start() {
    // The device empties itself when its queue is switched on, and somebody may have typed already.
    receive();
    for port in [CONSOLE, LOG] {
        write(port + INTERRUPTS, 0);
        write(port + LINE, 3);
        write(port + FIFO, 7);
        write(port + MODEM, 0x0b);
    }
    write(CONSOLE + INTERRUPTS, 1);
}

fn send(port: u16, bytes: &[u8]) {
    for chunk in bytes.chunks(16) {
        while read(port + STATUS) & CAN_SEND == 0 {
            core::hint::spin_loop();
        }
        // The queue is empty, and has room for 16.
        chunk.iter().for_each(|&byte| write(port + DATA, byte));
    }
}

static SENDING: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

pub(super) fn console_write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[0].lock();
        send(CONSOLE, bytes);
    });
}

pub(super) fn log_write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[1].lock();
        send(LOG, bytes);
    });
}

/// What has come and was not read yet. The interrupt writes, [`console_read`] reads.
struct Received {
    bytes: [u8; 4096],
    first: usize,
    len: usize,
}

static RECEIVED_BYTES: Mutex<Received> =
    Mutex::new(Received { bytes: [0; 4096], first: 0, len: 0 });
/// Some of it has not been read. When all has, the device has been emptied, and interrupts for what comes next.
static CAME: AtomicBool = AtomicBool::new(true);

/// Takes what the device has, as long as there is room: the device holds back what it cannot deliver.
pub(super) fn receive() {
    let mut received = RECEIVED_BYTES.lock();
    while received.len < received.bytes.len() && read(CONSOLE + STATUS) & RECEIVED != 0 {
        let at = (received.first + received.len) % received.bytes.len();
        received.bytes[at] = read(CONSOLE + DATA);
        received.len += 1;
    }
    CAME.store(received.len > 0, Ordering::SeqCst);
}

pub(super) fn console_read() -> Option<u8> {
    if !CAME.load(Ordering::SeqCst) {
        return None;
    }
    without_interrupts(|| {
        let mut received = RECEIVED_BYTES.lock();
        if received.len == 0 {
            drop(received);
            receive();
            received = RECEIVED_BYTES.lock();
        }
        let byte = *received.bytes.get(received.first).filter(|_| received.len > 0)?;
        received.first = (received.first + 1) % received.bytes.len();
        received.len -= 1;
        Some(byte)
    })
}
