//! A small operating system whose memory management consists of Samara's libraries.
//!
//! This file shows the order of the boot, from the boot loader's jump to the first process.

#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod fs;
mod log;
mod memory;
mod options;
mod process;
#[cfg(feature = "refusals")]
#[path = "../tests/refusals/kernel.rs"]
mod refusals;
mod shutdown;
mod syscalls;
mod trace;

use core::convert::Infallible;

use arch::{Arch, Machine};
use options::Options;
use process::scheduler;

/// Boots the kernel on the first processor, and runs threads on it until the first process has
/// exited.
///
/// `boot.s` calls it with the boot loader's argument `info`, on the boot page tables, with
/// interrupts off.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(info: u64) -> ! {
    // Memory: the boot loader's map, memblock, frames, the heap, and the kernel's own page tables.
    // SAFETY: `info` is the boot loader's argument, and no code has overwritten what it points to.
    let loaded = unsafe { memory::start(info) };
    // Traps and the timer.
    Arch::start_processor(0);
    Arch::restore_interrupts(true);
    // The initial files.
    if let Err(error) = fs::unpack(loaded.archive()) {
        log!("initial files: {error}: {}", error.description());
    }
    let options = Options::read(loaded.command_line);
    if options.plain_console {
        fs::console::get().set_plain();
    }
    // The secondary processors, and the first process.
    Arch::start_secondaries();
    loaded.free();
    options.start();
    shutdown::end(scheduler::idle(process::exited_with))
}

/// Runs threads on a secondary processor. `boot.s` calls it on the kernel's page tables.
fn processor_main(number: usize) -> ! {
    Arch::start_processor(number);
    Arch::restore_interrupts(true);
    match scheduler::idle(|| None::<Infallible>) {}
}
