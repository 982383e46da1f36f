//! The interrupt controller that each processor has, and its timer.

use core::ops::Range;

use super::DIRECT_MAP;

/// Physical addresses of its registers.
pub(super) const REGISTERS: Range<u64> = 0xfee0_0000..0xfee0_1000;

/// The vector of the timer.
pub(super) const TIMER: u8 = 0xf0;
/// The vector of interrupts that went away before they were taken.
const SPURIOUS: u32 = 0xff;

const END_OF_INTERRUPT: u64 = 0xb0;
const SPURIOUS_VECTOR: u64 = 0xf0;
const TIMER_VECTOR: u64 = 0x320;
const FIRST_COUNT: u64 = 0x380;
const COUNT: u64 = 0x390;
const DIVISOR: u64 = 0x3e0;

const ON: u32 = 1 << 8;
const PERIODIC: u32 = 1 << 17;
const BY_16: u32 = 3;

fn register(offset: u64) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut((DIRECT_MAP + REGISTERS.start + offset) as usize)
}

fn write(offset: u64, value: u32) {
    // SAFETY: a register of this processor's controller, which is mapped as a device.
    unsafe { register(offset).write_volatile(value) }
}

/// Switches the controller on, and lets the timer count down without interrupts.
pub(super) fn start() {
    write(SPURIOUS_VECTOR, ON | SPURIOUS);
    write(DIVISOR, BY_16);
    write(FIRST_COUNT, u32::MAX);
}

/// What is left of the count.
pub(super) fn count() -> u32 {
    // SAFETY: as above.
    unsafe { register(COUNT).read_volatile() }
}

/// Makes the timer interrupt each time that it has counted so far.
pub(super) fn start_timer(count: u32) {
    write(TIMER_VECTOR, PERIODIC | u32::from(TIMER));
    write(FIRST_COUNT, count);
}

/// Tells that an interrupt has been answered.
pub(super) fn answered() {
    write(END_OF_INTERRUPT, 0);
}
