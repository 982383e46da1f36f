//! The interrupt controller: GICv2, with a distributor for all processors and an interface for each.

use core::arch::asm;
use core::ops::Range;

use crate::arch::device;

/// Physical addresses of their registers.
pub(super) const DISTRIBUTOR: Range<u64> = 0x0800_0000..0x0800_1000;
pub(super) const INTERFACE: Range<u64> = 0x0801_0000..0x0801_1000;

const CONTROL: u64 = 0;
const ENABLE: u64 = 0x100;
const TARGETS: u64 = 0x800;
const LOWEST_PRIORITY: u64 = 4;
const ACKNOWLEDGE: u64 = 0xc;
const END_OF_INTERRUPT: u64 = 0x10;

/// Numbers from here on say that there is no interrupt.
const NONE: u32 = 1020;

const SOFTWARE: u64 = 0xf00;

/// The interrupt by which processors call each other.
pub(super) const IPI: u32 = 0;

/// Lets these interrupts pass, to this processor. Of those below 32 each processor has its own.
pub(super) fn start(wanted: &[u32]) {
    for &number in wanted {
        // SAFETY: the distributor's: a bit, and a byte, for each interrupt.
        unsafe {
            device::<u8>(DISTRIBUTOR.start + TARGETS + u64::from(number)).write_volatile(1);
            device::<u32>(DISTRIBUTOR.start + ENABLE + u64::from(number / 32 * 4))
                .write_volatile(1 << (number % 32));
        }
    }
    // SAFETY: on, and every priority passes.
    unsafe {
        device::<u32>(DISTRIBUTOR.start + CONTROL).write_volatile(1);
        device::<u32>(INTERFACE.start + LOWEST_PRIORITY).write_volatile(0xff);
        device::<u32>(INTERFACE.start + CONTROL).write_volatile(1);
    }
}

/// Takes the interrupt that waits: its number, and which processor it is from if it is [`IPI`].
pub(super) fn next() -> Option<u32> {
    // SAFETY: this processor's interface.
    let taken = unsafe { device::<u32>(INTERFACE.start + ACKNOWLEDGE).read_volatile() };
    (number(taken) < NONE).then_some(taken)
}

/// The number of an interrupt that was taken.
pub(super) fn number(taken: u32) -> u32 {
    taken & 0x3ff
}

/// Interrupts another processor.
pub(super) fn send_ipi(processor: usize) {
    // SAFETY: the distributor's. Who reads memory then finds what was written before.
    unsafe {
        asm!("dsb ishst", options(nostack));
        device::<u32>(DISTRIBUTOR.start + SOFTWARE).write_volatile(1 << (16 + processor) | IPI);
    }
}

/// Tells that an interrupt has been answered.
pub(super) fn end_of_interrupt(taken: u32) {
    // SAFETY: as above.
    unsafe { device::<u32>(INTERFACE.start + END_OF_INTERRUPT).write_volatile(taken) };
}
