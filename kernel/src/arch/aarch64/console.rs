//! A PL011 is the console. The kernel's log goes to whatever runs the machine, by semihosting.

use core::arch::asm;
use core::ops::Range;

use crate::arch::{device, serial};

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

/// Returns the next byte that has come.
pub(in crate::arch) fn received() -> Option<u8> {
    (read(FLAGS) & EMPTY == 0).then(|| read(DATA) as u8)
}

pub(in crate::arch) fn set_interrupt(on: bool) {
    write(INTERRUPTS, if on { RECEIVE } else { 0 });
}

/// Sends a byte, if there is room for it.
pub(in crate::arch) fn try_send(byte: u8) -> bool {
    let room = read(FLAGS) & FULL == 0;
    if room {
        write(DATA, byte.into());
    }
    room
}

pub(in crate::arch) fn log(bytes: &[u8]) {
    const WRITE_TEXT: u64 = 4;
    // SAFETY: a text that ends with a zero byte, which is only read.
    serial::each_text(bytes, |text| unsafe {
        asm!("hlt 0xf000", inout("x0") WRITE_TEXT => _, in("x1") text, options(nostack))
    });
}
