//! Starting the other processors, one after the other.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

use x86_64::instructions::port::Port;

use super::{DIRECT_MAP, local_apic, timer};
use crate::arch::Stack;
use crate::log;
use crate::memory::kernel_tables;
use crate::process::scheduler;

/// The page in the first MiB, which the kernel gives to nobody, where they begin.
const BEGIN: u64 = 0x8000;
const MILLISECOND: u64 = 1_000_000;
/// How long a processor may take to come.
const PATIENCE: u64 = 1000 * MILLISECOND;

unsafe extern "C" {
    static other_start: u8;
    static other_end: u8;
    static mut start_root: u64;
    static mut start_stack: u64;
    static mut start_entry: u64;
}

/// The number of the one that is being started.
static STARTING: AtomicUsize = AtomicUsize::new(0);

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

fn wait_until(deadline: u64, mut over: impl FnMut() -> bool) -> bool {
    while !over() {
        if timer::now() >= deadline {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

pub(super) fn start() {
    let from = &raw const other_start;
    let len = &raw const other_end as usize - from as usize;
    // SAFETY: a page below 1 MiB, which is reserved and in the direct map; the code is all that lies between the two.
    unsafe {
        let to = core::ptr::with_exposed_provenance_mut::<u8>((DIRECT_MAP + BEGIN) as usize);
        core::ptr::copy_nonoverlapping(from, to, len);
    }
    for number in 1..count().min(scheduler::MOST) {
        // The stack of its idle loop, for ever.
        let stack = Box::leak(Stack::new());
        STARTING.store(number, Ordering::SeqCst);
        // SAFETY: only the processor that is started reads them, and it has begun before the next one does.
        unsafe {
            start_root = kernel_tables().root();
            start_stack = stack.top();
            start_entry = other_entered as extern "C" fn() -> ! as usize as u64;
        }
        let wait = || {
            wait_until(timer::now() + 10 * MILLISECOND, || false);
        };
        local_apic::begin(number, BEGIN, wait);
        let is_online = || scheduler::online() & 1 << number != 0;
        if !wait_until(timer::now() + PATIENCE, is_online) {
            log!("processor {number} does not start");
            return;
        }
    }
}

extern "C" fn other_entered() -> ! {
    crate::processor_main(STARTING.load(Ordering::SeqCst))
}
