//! A small operating system whose memory management is Samara's libraries: from the loader to the first process, in the order of this page.

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

/// The first line of Rust. `info` is what the loader gave, the processor runs by the first tables, and interrupts are off.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(info: u64) -> ! {
    // Memory: what the loader says, an allocator for the start, frames, heap, the kernel's own tables.
    // SAFETY: the loader's own word, and nothing ran before.
    let loaded = unsafe { memory::start(info) };
    // Traps, and the timer.
    Arch::start_processor(0);
    Arch::restore_interrupts(true);
    // The first files.
    if let Err(error) = fs::unpack(loaded.archive()) {
        log!("initial files: {error}: {}", error.description());
    }
    let options = Options::read(loaded.command_line);
    if options.plain_console {
        fs::console::get().set_plain();
    }
    // The other processors, and the first process.
    Arch::start_secondaries();
    loaded.free();
    options.start();
    shutdown::end(scheduler::idle(process::exited_with))
}

/// Where each further processor begins.
fn processor_main(number: usize) -> ! {
    Arch::start_processor(number);
    Arch::restore_interrupts(true);
    match scheduler::idle(|| None::<Infallible>) {}
}
