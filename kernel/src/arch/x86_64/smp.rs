//! Starting the other processors: they begin with 16 bits, in a page of the first MiB.

use x86_64::instructions::port::Port;

use super::{DIRECT_MAP, local_apic, timer};
use crate::arch::smp;

/// The page in the first MiB, which nobody else uses until all have begun.
const BEGIN: u64 = 0x8000;
/// How long a processor takes to be ready for what it is sent next, in nanoseconds.
const PAUSE: u64 = 10_000_000;

unsafe extern "C" {
    static other_first: u8;
    static other_end: u8;
}

/// Processors of the machine, as QEMU's configuration device tells.
fn count() -> usize {
    const PROCESSORS: u16 = 5;
    let (mut selector, mut data) = (Port::<u16>::new(0x510), Port::<u8>::new(0x511));
    // SAFETY: the device's ports. A number of two bytes, the low one first.
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
    let from = &raw const other_first;
    let len = &raw const other_end as usize - from as usize;
    // SAFETY: a page below 1 MiB, which is reserved and in the direct map; the code is all that lies between the two.
    unsafe {
        let to = core::ptr::with_exposed_provenance_mut::<u8>((DIRECT_MAP + BEGIN) as usize);
        core::ptr::copy_nonoverlapping(from, to, len);
    }
    smp::start(count(), |number, _| {
        local_apic::begin(number, BEGIN, pause);
        true
    });
}
