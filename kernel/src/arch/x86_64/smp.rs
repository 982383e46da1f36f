//! The start of secondary processors, which begin in real mode in a page below 1 MiB.

use x86_64::instructions::port::Port;

use super::{DIRECT_MAP, local_apic, timer};
use crate::arch::smp;

/// The page below 1 MiB, which has no other user until all processors have started.
const BEGIN: u64 = 0x8000;
/// The time in nanoseconds that a processor needs between two commands.
const PAUSE: u64 = 10_000_000;

unsafe extern "C" {
    static secondary_first: u8;
    static secondary_end: u8;
}

/// Returns the number of processors, from QEMU's configuration device.
fn count() -> usize {
    const PROCESSORS: u16 = 5;
    let (mut selector, mut data) = (Port::<u16>::new(0x510), Port::<u8>::new(0x511));
    // SAFETY: ports of the device. The number has two bytes, the low one first.
    unsafe {
        selector.write(PROCESSORS);
        usize::from(data.read()) | usize::from(data.read()) << 8
    }
}

fn pause() {
    let end = timer::now() + PAUSE;
    while timer::now() < end {
        core::hint::spin_loop();
    }
}

pub(super) fn start() {
    let from = &raw const secondary_first;
    let len = &raw const secondary_end as usize - from as usize;
    // SAFETY: the page is reserved and in the direct map. The code lies between the two symbols,
    // and fits into the page.
    unsafe {
        let to = core::ptr::with_exposed_provenance_mut::<u8>((DIRECT_MAP + BEGIN) as usize);
        core::ptr::copy_nonoverlapping(from, to, len);
    }
    smp::start(count(), |number, _| {
        local_apic::begin(number, BEGIN, pause);
        true
    });
}
