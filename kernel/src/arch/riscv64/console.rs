//! A 16550 is the console, whose interrupts come by way of a PLIC. The kernel's log goes to whatever runs the machine, by semihosting.

use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::Ordering;

use super::HARTS;
use crate::arch::{device, serial};

/// Physical addresses of the 16550.
pub(super) const REGISTERS: Range<u64> = 0x1000_0000..0x1000_1000;
/// Physical addresses of the PLIC: priorities; what each hart's levels want; thresholds and claims.
pub(super) const PRIORITIES: Range<u64> = 0x0c00_0000..0x0c00_1000;
pub(super) const ENABLED: Range<u64> = 0x0c00_2000..0x0c00_6000;
pub(super) const CLAIMS: Range<u64> = 0x0c20_0000..0x0c28_0000;

/// The 16550's interrupt.
const INTERRUPT: u32 = 10;

const DATA: u64 = 0;
const INTERRUPTS: u64 = 1;
const LINE: u64 = 3;
const STATUS: u64 = 5;
const RECEIVED: u8 = 1;
const CAN_SEND: u8 = 0x20;

fn write(register: u64, value: u8) {
    // SAFETY: a register of the 16550, which is mapped as a device.
    unsafe { device::<u8>(REGISTERS.start + register).write_volatile(value) }
}

fn read(register: u64) -> u8 {
    // SAFETY: as above.
    unsafe { device::<u8>(REGISTERS.start + register).read_volatile() }
}

/// Eight bits, no parity, an interrupt when something has come. The queues stay as the firmware has left them: the device drops what has come when they are
/// switched, and somebody may have typed already. Byte 1 tells whoever shows the console that the firmware's output ends.
pub(super) fn start() {
    write(LINE, 3);
    write(INTERRUPTS, 1);
    serial::write(&[1]);
}

/// The PLIC's number of the first processor's supervisor level.
fn level() -> u64 {
    2 * HARTS[0].load(Ordering::Relaxed) as u64 + 1
}

fn claim() -> *mut u32 {
    device(CLAIMS.start + 0x1000 * level() + 4)
}

/// Lets the interrupt pass, to the first processor.
pub(super) fn start_interrupts() {
    // SAFETY: registers of the PLIC, which is mapped as a device: a priority above the threshold.
    unsafe {
        device::<u32>(PRIORITIES.start + 4 * u64::from(INTERRUPT)).write_volatile(1);
        device::<u32>(ENABLED.start + 0x80 * level()).write_volatile(1 << INTERRUPT);
        device::<u32>(CLAIMS.start + 0x1000 * level()).write_volatile(0);
    }
}

/// An interrupt of a device.
pub(super) fn interrupt() {
    // SAFETY: as above.
    let number = unsafe { claim().read_volatile() };
    if number == INTERRUPT {
        serial::receive();
    }
    // SAFETY: as above: it has been answered.
    unsafe { claim().write_volatile(number) };
}

/// Returns the next byte that has come.
pub(in crate::arch) fn received() -> Option<u8> {
    (read(STATUS) & RECEIVED != 0).then(|| read(DATA))
}

pub(in crate::arch) fn set_interrupt(on: bool) {
    write(INTERRUPTS, on.into());
}

/// Sends a byte, if there is room for it.
pub(in crate::arch) fn try_send(byte: u8) -> bool {
    let room = read(STATUS) & CAN_SEND != 0;
    if room {
        write(DATA, byte);
    }
    room
}

// The three instructions by which semihosting is called, in one page.
global_asm!(
    ".option push",
    ".option norvc",
    ".section .text",
    ".balign 16",
    ".global semihosting",
    "semihosting:",
    "slli zero, zero, 0x1f",
    "ebreak",
    "srai zero, zero, 7",
    "ret",
    ".option pop",
);

unsafe extern "C" {
    fn semihosting(what: u64, text: *const u8) -> u64;
}

pub(in crate::arch) fn log(bytes: &[u8]) {
    const WRITE_TEXT: u64 = 4;
    serial::each_text(bytes, |text| {
        // SAFETY: a text that ends with a zero byte, which is only read.
        unsafe { semihosting(WRITE_TEXT, text) };
    });
}
