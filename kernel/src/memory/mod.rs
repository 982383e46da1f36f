//! The kernel's memory, from the boot loader's map to a machine that runs processes.
//!
//! | file | concept |
//! |---|---|
//! | `boot` | memblock, and the order in which the parts start |
//! | `frames` | the frame allocator |
//! | `heap` | the kernel's heap, in its half of the address space |
//! | `platform` | the types that samara-mm asks of a kernel |
//! | `shootdown` | TLB shootdown |

mod boot;
mod frames;
pub mod heap;
mod platform;
pub mod shootdown;

pub use boot::start;
pub use frames::managed as managed_frames;
pub use platform::{Kernel, kernel_tables, machine};

use core::slice;

use crate::arch::{Arch, Machine};

/// The memory of a process.
pub type Memory = samara_mm::process::Process<Kernel>;

/// Returns the bytes of physical memory at these addresses.
///
/// # Safety
///
/// The range is memory, and is not written while the slice is in use.
pub unsafe fn physical_bytes(range: core::ops::Range<u64>) -> &'static [u8] {
    let first = core::ptr::with_exposed_provenance((range.start + Arch::DIRECT_MAP) as usize);
    // SAFETY: the direct map covers all memory. The rest is the caller's promise.
    unsafe { slice::from_raw_parts(first, (range.end - range.start) as usize) }
}

/// Returns the number of free frames.
pub fn free_frames() -> u64 {
    machine().physical().backing().free_frames()
}
