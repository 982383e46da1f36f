//! The console on a PL011, and the kernel log by semihosting.

use core::arch::asm;
use core::ops::Range;

use crate::arch::{device, serial};

/// The physical addresses of the PL011.
pub(super) const REGISTERS: Range<u64> = 0x0900_0000..0x0900_1000;
/// The interrupt of the PL011.
pub(super) const INTERRUPT: u32 = 33;

const DATA: u64 = 0;
const FLAGS: u64 = 0x18;
const LINE: u64 = 0x2c;
const CONTROL: u64 = 0x30;
const INTERRUPTS: u64 = 0x38;

const EMPTY: u32 = 1 << 4;
const FULL: u32 = 1 << 5;
/// The interrupts for received bytes: the FIFO's level, and its timeout.
const RECEIVE: u32 = 1 << 4 | 1 << 6;

fn write(register: u64, value: u32) {
    // SAFETY: a register of the PL011, which is mapped as a device.
    unsafe { device::<u32>(REGISTERS.start + register).write_volatile(value) }
}

fn read(register: u64) -> u32 {
    // SAFETY: as above.
    unsafe { device::<u32>(REGISTERS.start + register).read_volatile() }
}

/// Sets the format to eight bits, and enables the receive interrupt.
///
/// The FIFOs stay disabled, because the device drops received bytes when they are enabled.
pub(super) fn start() {
    write(LINE, 0x60);
    write(CONTROL, 0x301);
    write(INTERRUPTS, RECEIVE);
}

/// Returns the next received byte.
pub(in crate::arch) fn receive_byte() -> Option<u8> {
    (read(FLAGS) & EMPTY == 0).then(|| read(DATA) as u8)
}

pub(in crate::arch) fn set_interrupt(on: bool) {
    write(INTERRUPTS, if on { RECEIVE } else { 0 });
}

/// Sends a byte if the device has room. Returns `true` if it has.
pub(in crate::arch) fn try_send(byte: u8) -> bool {
    let room = read(FLAGS) & FULL == 0;
    if room {
        write(DATA, byte.into());
    }
    room
}

pub(in crate::arch) fn log(bytes: &[u8]) {
    const WRITE_TEXT: u64 = 4;
    // SAFETY: the host only reads the C string.
    serial::each_c_string(bytes, |text| unsafe {
        asm!("hlt 0xf000", inout("x0") WRITE_TEXT => _, in("x1") text, options(nostack))
    });
}
