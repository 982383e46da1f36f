//! The kernel's memory: from the loader's map to a machine on which processes run.
//!
//! | file | concept |
//! |---|---|
//! | `boot` | what is free, by memblock; the order in which the parts start |
//! | `frames` | the allocator of frames |
//! | `heap` | the kernel's heap, in a part of its half of the address space |
//! | `platform` | what samara-mm asks of a kernel |
//! | `shootdown` | making processors forget translations |

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

/// A process's memory.
pub type Memory = samara_mm::process::Process<Kernel>;

/// The bytes of physical memory at these addresses.
///
/// # Safety
/// The range is memory that nobody changes as long as the slice is used.
pub unsafe fn physical_bytes(range: core::ops::Range<u64>) -> &'static [u8] {
    let first = core::ptr::with_exposed_provenance((range.start + Arch::DIRECT_MAP) as usize);
    // SAFETY: the direct map has all of memory; the caller's promise.
    unsafe { slice::from_raw_parts(first, (range.end - range.start) as usize) }
}

/// Frames that are free.
pub fn free_frames() -> u64 {
    machine().physical().backing().free_frames()
}
