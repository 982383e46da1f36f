//! Starting the other processors, one after the other.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Arch, KernelStack, Machine};
use crate::log;
use crate::memory::kernel_tables;
use crate::process::scheduler;

/// How long a processor may take to come, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

unsafe extern "C" {
    static other_first: u8;
    static boot_root: u8;
}

/// What `boot.s` reads on each processor: root table, end of the stack, function to call. At the start, those of the first processor.
#[unsafe(export_name = "start_root")]
static mut ROOT: *const u8 = &raw const boot_root;
#[unsafe(export_name = "start_stack")]
static mut STACK: *const u8 = (&raw const FIRST_STACK).wrapping_add(1).cast();
#[unsafe(export_name = "start_entry")]
static mut ENTRY: *const () = crate::kernel_main as *const ();

static mut FIRST_STACK: KernelStack = KernelStack::UNUSED;

/// The number of the one that is being started.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// Starts processors with numbers from 1 on, as long as `switch_on` succeeds with the number and the physical address of the first instruction.
pub(super) fn start(most: usize, switch_on: impl Fn(usize, u64) -> bool) {
    let first = &raw const other_first as u64 - Arch::IMAGE_OFFSET;
    for number in 1..most.min(scheduler::MAX_CPUS) {
        // The stack of its idle loop, for ever.
        let stack = Box::leak(KernelStack::new());
        STARTING.store(number, Ordering::SeqCst);
        // SAFETY: only the processor that is started reads them, and it has begun before the next one does.
        unsafe {
            ROOT = core::ptr::without_provenance(kernel_tables().root() as usize);
            STACK = core::ptr::without_provenance(stack.top() as usize);
            ENTRY = other_entered as *const ();
        }
        if !switch_on(number, first) {
            // SAFETY: leaked above, and nobody has it.
            drop(unsafe { Box::from_raw(stack) });
            return;
        }
        let deadline = Arch::now() + PATIENCE;
        while scheduler::online() & 1 << number == 0 {
            if Arch::now() >= deadline {
                log!("processor {number} does not start");
                return;
            }
            core::hint::spin_loop();
        }
    }
}

extern "C" fn other_entered() -> ! {
    crate::processor_main(STARTING.load(Ordering::SeqCst))
}
