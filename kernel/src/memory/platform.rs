//! The types that samara-mm asks of a kernel: locks, frames, and TLB shootdown.

use samara_mm::process;
use samara_paging::{Grace, PageTables, Physical};
use spin::Once;

use super::frames::FrameArena;
use super::shootdown::Processors;
use crate::arch::{Arch, Machine};

pub struct Kernel;

// ANCHOR: platform
impl process::Platform for Kernel {
    type Format = <Arch as Machine>::Format;
    type Backing = FrameArena;
    type Reclaim = Grace;
    type Tlb = Processors;
    type Mutex = spin::Mutex<()>;
    type RwLock = spin::RwLock<()>;
}
// ANCHOR_END: platform

static MACHINE: Once<process::Machine<Kernel>> = Once::new();

/// Returns the machine on which all processes run.
///
/// # Panics
///
/// Panics before [`boot::start`](super::start) has created it.
pub fn machine() -> &'static process::Machine<Kernel> {
    MACHINE.get().unwrap_or_else(|| panic!("the machine is not created yet"))
}

/// Returns the page tables of the kernel's half, which every root table shares.
pub fn kernel_tables() -> &'static PageTables<<Arch as Machine>::Format, process::Machine<Kernel>> {
    machine().kernel().unwrap_or_else(|| panic!("the machine has no kernel's half"))
}

pub(super) fn try_machine() -> Option<&'static process::Machine<Kernel>> {
    MACHINE.get()
}

pub(super) fn init(physical: Physical<FrameArena, Grace>, processors: Processors) {
    // ANCHOR: machine
    MACHINE.call_once(|| {
        let machine = process::Machine::with_kernel(physical, processors, Arch::KERNEL_HALF);
        machine.unwrap_or_else(|error| panic!("cannot create the machine: {error}"))
    });
    // ANCHOR_END: machine
}
