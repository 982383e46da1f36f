//! `samara/mm.h`: address spaces with Linux's semantics.
//!
//! | file | concept |
//! |---|---|
//! | `abi` | the header's structures and constants |
//! | `memory` | the source of frames |
//! | `phys` | `mm_phys_…`: five formats behind one interface |
//! | `file` | `mm_file_…`: opens, inodes, and the open that serves the pages |
//! | `space` | an address space, with pages in one of the formats or without any, behind one interface |
//! | `backend` | notification about the effects of calls |
//! | `lifecycle` | `mm_new`, `mm_fork`, `mm_put`, the configuration |
//! | `exec` | `mm_exec`: programs |
//! | `calls` | the system calls |
//! | `pages` | faults, copies, page status |
//! | `observe` | areas, maps, smaps, checks |
//! | `invalidate` | notification of callers about invalid translations |
//! | `activity` | detection of other running calls on a memory |
//!
//! # Safety
//!
//! Each function has these duties of its caller, in addition to its own text. Pointers are what the
//! header says, and come from this library. After an object has been put, no thread uses it any
//! more. Where an object is required and NULL is passed, the result is `-EINVAL`, or nothing
//! happens. The caller's functions may be called from any thread that calls the library. They do
//! not unwind.
//!
//! A defect of the library itself aborts the program: no panic crosses the boundary.

mod abi;
mod activity;
mod backend;
mod calls;
mod exec;
mod file;
mod invalidate;
mod lifecycle;
mod memory;
mod observe;
mod pages;
mod phys;
mod space;

use core::ffi::c_int;
use core::mem::MaybeUninit;

use samara_mm::Errno;
use samara_mm::heap::try_box;

pub use abi::*;
pub use calls::*;
pub use exec::mm_exec;
pub use file::{MmFile, mm_file_get, mm_file_open, mm_file_put};
pub use invalidate::{MmInvalidate, mm_asid, mm_generation, mm_phys_on_invalidate};
pub use lifecycle::{
    Mm, mm_config_default, mm_config_for, mm_exit, mm_fork, mm_fork_with, mm_new, mm_new_within,
    mm_put, mm_set_contents,
};
pub use observe::*;
pub use pages::*;
pub use phys::{
    MmPhys, mm_file_extend, mm_file_punch, mm_file_read, mm_file_sync, mm_file_truncate,
    mm_file_write, mm_phys_new, mm_phys_put, mm_phys_stats, mm_phys_virt,
};

/// Converts an error to the value that C callers expect.
fn code(error: Errno) -> c_int {
    -error.0
}

/// Creates an object and stores a pointer to it. Returns 0 or an error. Its memory is allocated
/// first, so that nothing created is lost.
///
/// # Safety
///
/// `to` points to a pointer, or is NULL, which returns `-EINVAL`.
unsafe fn return_boxed<T>(to: *mut *mut T, make: impl FnOnce() -> Result<T, Errno>) -> c_int {
    if to.is_null() {
        return code(Errno::EINVAL);
    }
    let made = try_box(MaybeUninit::uninit()).and_then(|mut place: Box<MaybeUninit<T>>| {
        place.write(make()?);
        Ok(Box::into_raw(place).cast::<T>())
    });
    match made {
        Ok(made) => {
            // SAFETY: the caller's duty.
            unsafe { to.write(made) };
            0
        }
        Err(error) => code(error),
    }
}
