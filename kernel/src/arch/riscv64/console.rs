//! The console on a 16550, whose interrupts pass through a PLIC, and the kernel log by semihosting.

use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::Ordering;

use super::HARTS;
use crate::arch::{device, serial};

/// The physical addresses of the 16550.
pub(super) const REGISTERS: Range<u64> = 0x1000_0000..0x1000_1000;
/// The physical addresses of the PLIC: priorities, enable bits of each context, thresholds and
/// claims.
pub(super) const PRIORITIES: Range<u64> = 0x0c00_0000..0x0c00_1000;
pub(super) const ENABLED: Range<u64> = 0x0c00_2000..0x0c00_6000;
pub(super) const CLAIMS: Range<u64> = 0x0c20_0000..0x0c28_0000;

/// The interrupt of the 16550.
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

/// Sets the format to eight bits without parity, and enables the receive interrupt.
///
/// The FIFOs stay as the firmware has left them, because the device drops received bytes when they
/// are switched. Byte 1 marks the end of the firmware's output for `cargo xtask kernel`.
pub(super) fn start() {
    write(LINE, 3);
    write(INTERRUPTS, 1);
    serial::write(&[1]);
}

/// Returns the PLIC's context of the first processor in supervisor mode.
fn plic_context() -> u64 {
    2 * HARTS[0].load(Ordering::Relaxed) as u64 + 1
}

fn claim() -> *mut u32 {
    device(CLAIMS.start + 0x1000 * plic_context() + 4)
}

/// Enables the 16550's interrupt for the first processor.
pub(super) fn start_interrupts() {
    // SAFETY: registers of the PLIC, which is mapped as a device. The priority is above the
    // threshold.
    unsafe {
        device::<u32>(PRIORITIES.start + 4 * u64::from(INTERRUPT)).write_volatile(1);
        device::<u32>(ENABLED.start + 0x80 * plic_context()).write_volatile(1 << INTERRUPT);
        device::<u32>(CLAIMS.start + 0x1000 * plic_context()).write_volatile(0);
    }
}

/// Handles an interrupt from the PLIC.
pub(super) fn interrupt() {
    // SAFETY: as above. Reading claims the interrupt.
    let number = unsafe { claim().read_volatile() };
    if number == INTERRUPT {
        serial::receive();
    }
    // SAFETY: as above. Writing completes the interrupt.
    unsafe { claim().write_volatile(number) };
}

/// Returns the next received byte.
pub(in crate::arch) fn receive_byte() -> Option<u8> {
    (read(STATUS) & RECEIVED != 0).then(|| read(DATA))
}

pub(in crate::arch) fn set_interrupt(on: bool) {
    write(INTERRUPTS, on.into());
}

/// Sends a byte if the device has room. Returns `true` if it has.
pub(in crate::arch) fn try_send(byte: u8) -> bool {
    let room = read(STATUS) & CAN_SEND != 0;
    if room {
        write(DATA, byte);
    }
    room
}

// The three instructions of a semihosting call must lie in one page.
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
    serial::each_c_string(bytes, |text| {
        // SAFETY: the host only reads the C string.
        unsafe { semihosting(WRITE_TEXT, text) };
    });
}
