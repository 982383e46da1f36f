//! The start of the secondary processors, one after the other.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Arch, KernelStack, Machine};
use crate::log;
use crate::memory::kernel_tables;
use crate::process::scheduler;

/// The time in nanoseconds within which a processor must come online.
const TIMEOUT: u64 = 1_000_000_000;

unsafe extern "C" {
    static secondary_first: u8;
    static boot_root: u8;
}

/// The root table, the end of the stack, and the entry function for `boot.s` on each processor. The
/// initial values are those of the first processor.
#[unsafe(export_name = "start_root")]
static mut ROOT: *const u8 = &raw const boot_root;
#[unsafe(export_name = "start_stack")]
static mut STACK: *const u8 = (&raw const FIRST_STACK).wrapping_add(1).cast();
#[unsafe(export_name = "start_entry")]
static mut ENTRY: *const () = crate::kernel_main as *const ();

static mut FIRST_STACK: KernelStack = KernelStack::UNUSED;

/// The number of the processor that is being started.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// Starts processors with numbers from 1 on, until `start_one` fails. It gets the number, and the
/// physical address of the processor's first instruction.
pub(super) fn start(most: usize, start_one: impl Fn(usize, u64) -> bool) {
    let first = &raw const secondary_first as u64 - Arch::IMAGE_OFFSET;
    for number in 1..most.min(scheduler::MAX_CPUS) {
        // The stack of the processor's idle loop, which lives for ever.
        let stack = Box::leak(KernelStack::new());
        STARTING.store(number, Ordering::SeqCst);
        // SAFETY: only the processor that is being started reads these. It is online before the
        // next one is started.
        unsafe {
            ROOT = core::ptr::without_provenance(kernel_tables().root() as usize);
            STACK = core::ptr::without_provenance(stack.top() as usize);
            ENTRY = secondary_entered as *const ();
        }
        if !start_one(number, first) {
            // SAFETY: the stack was leaked above, and no processor uses it.
            drop(unsafe { Box::from_raw(stack) });
            return;
        }
        let deadline = Arch::now() + TIMEOUT;
        while scheduler::online() & 1 << number == 0 {
            if Arch::now() >= deadline {
                log!("processor {number} did not start in time");
                return;
            }
            core::hint::spin_loop();
        }
    }
}

extern "C" fn secondary_entered() -> ! {
    crate::processor_main(STARTING.load(Ordering::SeqCst))
}
