//! The GICv2 interrupt controller: a distributor for all processors, and an interface for each.

use core::arch::asm;
use core::ops::Range;

use crate::arch::device;

/// The physical addresses of the registers.
pub(super) const DISTRIBUTOR: Range<u64> = 0x0800_0000..0x0800_1000;
pub(super) const INTERFACE: Range<u64> = 0x0801_0000..0x0801_1000;

const CONTROL: u64 = 0;
const ENABLE: u64 = 0x100;
const TARGETS: u64 = 0x800;
const LOWEST_PRIORITY: u64 = 4;
const ACKNOWLEDGE: u64 = 0xc;
const END_OF_INTERRUPT: u64 = 0x10;

/// Numbers from here on mean that no interrupt is pending.
const NONE: u32 = 1020;

const SOFTWARE: u64 = 0xf00;

/// The interrupt that processors send to each other.
pub(super) const IPI: u32 = 0;

/// Enables interrupts for this processor. Each processor has its own interrupts below 32.
pub(super) fn start(wanted: &[u32]) {
    for &number in wanted {
        // SAFETY: registers of the distributor: a byte and a bit for each interrupt.
        unsafe {
            device::<u8>(DISTRIBUTOR.start + TARGETS + u64::from(number)).write_volatile(1);
            device::<u32>(DISTRIBUTOR.start + ENABLE + u64::from(number / 32 * 4))
                .write_volatile(1 << (number % 32));
        }
    }
    // SAFETY: enables the controller for all priorities.
    unsafe {
        device::<u32>(DISTRIBUTOR.start + CONTROL).write_volatile(1);
        device::<u32>(INTERFACE.start + LOWEST_PRIORITY).write_volatile(0xff);
        device::<u32>(INTERFACE.start + CONTROL).write_volatile(1);
    }
}

/// Acknowledges the pending interrupt. Returns its number, with the sending processor for an
/// [`IPI`].
pub(super) fn next() -> Option<u32> {
    // SAFETY: a register of this processor's interface.
    let taken = unsafe { device::<u32>(INTERFACE.start + ACKNOWLEDGE).read_volatile() };
    (number(taken) < NONE).then_some(taken)
}

/// Returns the number of an acknowledged interrupt.
pub(super) fn number(taken: u32) -> u32 {
    taken & 0x3ff
}

/// Interrupts another processor.
pub(super) fn send_ipi(processor: usize) {
    // SAFETY: a register of the distributor. The barrier makes earlier writes visible to the
    // interrupted processor.
    unsafe {
        asm!("dsb ishst", options(nostack));
        device::<u32>(DISTRIBUTOR.start + SOFTWARE).write_volatile(1 << (16 + processor) | IPI);
    }
}

/// Signals the end of an interrupt's handling.
pub(super) fn end_of_interrupt(taken: u32) {
    // SAFETY: as above.
    unsafe { device::<u32>(INTERFACE.start + END_OF_INTERRUPT).write_volatile(taken) };
}
