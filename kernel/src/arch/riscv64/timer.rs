//! Time. A counter runs, and the firmware ticks a hundred times a second. A Goldfish clock keeps
//! the time while the machine is off.

use core::ops::Range;

use riscv::register::time;

use crate::arch::device;
use crate::process::scheduler;

/// The physical addresses of the clock, which counts nanoseconds since 1970.
pub(super) const CLOCK: Range<u64> = 0x10_1000..0x10_2000;

/// The counter's frequency in Hz on QEMU's `virt`.
const FREQUENCY: u64 = 10_000_000;
const TICKS_A_SECOND: u64 = 100;

/// Starts this processor's next tick.
pub(super) fn start() {
    sbi_rt::set_timer(counter() + FREQUENCY / TICKS_A_SECOND);
}

/// Handles the timer's interrupt.
pub(super) fn tick() {
    start();
    scheduler::tick();
}

pub(in crate::arch) fn counter() -> u64 {
    time::read64()
}

/// Returns the nanoseconds since the machine was switched on.
pub(in crate::arch) fn now() -> u64 {
    counter() * (1_000_000_000 / FREQUENCY)
}

/// Returns the seconds since 1970.
pub(in crate::arch) fn wall_clock() -> u64 {
    let read = |register| {
        // SAFETY: a register of the clock, which is mapped as a device. Reading the low half
        // latches the high one, so it is read first.
        u64::from(unsafe { device::<u32>(CLOCK.start + register).read_volatile() })
    };
    (read(0) | read(4) << 32) / 1_000_000_000
}
