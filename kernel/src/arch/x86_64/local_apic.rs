//! The local APIC, which each processor has, and its timer.

use core::ops::Range;

use crate::arch::device;

/// The physical addresses of the registers.
pub(super) const REGISTERS: Range<u64> = 0xfee0_0000..0xfee0_1000;

/// The vector of the timer.
pub(super) const TIMER: u8 = 0xf0;
/// The vector of interrupts between processors.
pub(super) const IPI: u8 = 0xf1;
/// The vector of interrupts that are gone before they are taken.
const SPURIOUS: u32 = 0xff;

const END_OF_INTERRUPT: u64 = 0xb0;
const SPURIOUS_VECTOR: u64 = 0xf0;
const COMMAND: u64 = 0x300;
const COMMAND_TO: u64 = 0x310;
const TIMER_VECTOR: u64 = 0x320;
const FIRST_COUNT: u64 = 0x380;
const COUNT: u64 = 0x390;
const DIVISOR: u64 = 0x3e0;

const ON: u32 = 1 << 8;
const PERIODIC: u32 = 1 << 17;
const BY_16: u32 = 3;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;

fn register(offset: u64) -> *mut u32 {
    device(REGISTERS.start + offset)
}

fn write(offset: u64, value: u32) {
    // SAFETY: a register of this processor's APIC, which is mapped as a device.
    unsafe { register(offset).write_volatile(value) }
}

/// Enables the APIC, and lets the timer count down without interrupts.
pub(super) fn start() {
    write(SPURIOUS_VECTOR, ON | SPURIOUS);
    write(DIVISOR, BY_16);
    write(FIRST_COUNT, u32::MAX);
}

/// Returns the timer's current count.
pub(super) fn count() -> u32 {
    // SAFETY: as above.
    unsafe { register(COUNT).read_volatile() }
}

/// Makes the timer interrupt each time that it has counted down from `count`.
pub(super) fn start_timer(count: u32) {
    write(TIMER_VECTOR, PERIODIC | u32::from(TIMER));
    write(FIRST_COUNT, count);
}

/// Sends an interrupt command to a processor. A processor's number is the ID of its APIC.
fn send(processor: usize, command: u32) {
    write(COMMAND_TO, (processor as u32) << 24);
    write(COMMAND, command);
}

/// Interrupts another processor.
pub(super) fn send_ipi(processor: usize) {
    send(processor, u32::from(IPI));
}

/// Makes a processor that has not started begin at the first byte of a page below 1 MiB. `wait`
/// waits for some milliseconds.
pub(super) fn begin(processor: usize, page: u64, wait: impl Fn()) {
    send(processor, ASSERT | INIT);
    wait();
    send(processor, ASSERT | STARTUP | (page >> 12) as u32);
    wait();
}

/// Signals the end of an interrupt's handling.
pub(super) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}
