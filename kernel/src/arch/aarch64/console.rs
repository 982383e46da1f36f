//! A PL011 is the console. The kernel's log goes to whatever runs the machine, by semihosting.

use core::arch::asm;
use core::ops::Range;

use spin::Mutex;

use super::device;
use crate::arch::{input, without_interrupts};

/// Physical addresses of the PL011.
pub(super) const REGISTERS: Range<u64> = 0x0900_0000..0x0900_1000;
/// Its interrupt.
pub(super) const INTERRUPT: u32 = 33;

const DATA: u64 = 0;
const FLAGS: u64 = 0x18;
const LINE: u64 = 0x2c;
const CONTROL: u64 = 0x30;
const INTERRUPTS: u64 = 0x38;

const EMPTY: u32 = 1 << 4;
const FULL: u32 = 1 << 5;
/// Something has come, and nothing has come for a while.
const RECEIVE: u32 = 1 << 4 | 1 << 6;

fn write(register: u64, value: u32) {
    // SAFETY: a register of the PL011, which is mapped as a device.
    unsafe { device::<u32>(REGISTERS.start + register).write_volatile(value) }
}

fn read(register: u64) -> u32 {
    // SAFETY: as above.
    unsafe { device::<u32>(REGISTERS.start + register).read_volatile() }
}

/// Eight bits, and an interrupt when something has come. The queues stay off: the device drops what has come when they are switched on, and somebody may have typed
/// already.
pub(super) fn start() {
    write(LINE, 0x60);
    write(CONTROL, 0x301);
    write(INTERRUPTS, RECEIVE);
}

/// Moves received bytes from the device to the input buffer. Disables the device's interrupt while the buffer is full.
pub(in crate::arch) fn receive() {
    let all = input::fill(|| (read(FLAGS) & EMPTY == 0).then(|| read(DATA) as u8));
    write(INTERRUPTS, if all { RECEIVE } else { 0 });
}

static SENDING: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

pub(in crate::arch) fn console_write(bytes: &[u8]) {
    without_interrupts(|| {
        let _alone = SENDING[0].lock();
        for &byte in bytes {
            while read(FLAGS) & FULL != 0 {
                core::hint::spin_loop();
            }
            write(DATA, byte.into());
        }
    });
}

pub(in crate::arch) fn log_write(bytes: &[u8]) {
    const WRITE_TEXT: u64 = 4;
    without_interrupts(|| {
        let _alone = SENDING[1].lock();
        for chunk in bytes.chunks(255) {
            let mut text = [0u8; 256];
            text[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: a text that ends with a zero byte, which is only read.
            unsafe {
                asm!("hlt 0xf000", inout("x0") WRITE_TEXT => _, in("x1") text.as_ptr(), options(nostack))
            };
        }
    });
}
