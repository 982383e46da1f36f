//! Time. The generic timer counts, and ticks a hundred times a second. A PL031 keeps the time while
//! the machine is off.

use core::ops::Range;

use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTKCTL_EL1, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0, Readable, Writeable,
};

use crate::arch::device;
use crate::process::scheduler;

/// The interrupt of this processor's virtual timer.
pub(super) const INTERRUPT: u32 = 27;

/// The physical addresses of the PL031.
pub(super) const CLOCK: Range<u64> = 0x0901_0000..0x0901_1000;

const TICKS_A_SECOND: u64 = 100;

/// Starts the ticks of this processor.
pub(super) fn start() {
    // Programs may read the counter.
    CNTKCTL_EL1.write(CNTKCTL_EL1::EL0VCTEN::SET);
    next_tick();
    CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET);
}

fn next_tick() {
    CNTV_CVAL_EL0.set(counter() + CNTFRQ_EL0.get() / TICKS_A_SECOND);
}

/// Handles the timer's interrupt.
pub(super) fn tick() {
    next_tick();
    scheduler::tick();
}

pub(in crate::arch) fn counter() -> u64 {
    CNTVCT_EL0.get()
}

/// Returns the nanoseconds since the machine was switched on.
pub(in crate::arch) fn now() -> u64 {
    (u128::from(counter()) * 1_000_000_000 / u128::from(CNTFRQ_EL0.get().max(1))) as u64
}

/// Returns the seconds since 1970.
pub(in crate::arch) fn wall_clock() -> u64 {
    // SAFETY: the data register of the PL031, which is mapped as a device.
    u64::from(unsafe { device::<u32>(CLOCK.start).read_volatile() })
}
