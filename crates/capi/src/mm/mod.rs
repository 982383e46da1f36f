//! `samara/mm.h`: address spaces with Linux's semantics.
//!
//! | file | concept |
//! |---|---|
//! | `abi` | the header's structures and numbers |
//! | `memory` | where frames come from |
//! | `phys` | `mm_phys_…`: five formats behind one interface |
//! | `file` | `mm_file_…`: opens, inodes, and who serves the pages |
//! | `space` | an address space, with pages in one of the formats or without any, behind one interface |
//! | `backend` | who is told what a call does |
//! | `life` | `mm_new`, `mm_fork`, `mm_put`, the configuration |
//! | `exec` | `mm_exec`: programs |
//! | `calls` | the system calls |
//! | `pages` | faults, copies, what is told of pages |
//! | `look` | areas, maps, smaps, checks |
//! | `invalidate` | telling callers which translations are no longer true |
//! | `gate` | whether anything else runs on a memory |
//!
//! # Safety
//!
//! What each function asks of its caller, beside what its own text says: pointers are what the header says they are, and of this library; what has
//! been put is not used any more, by any thread. Where an object is needed and there is NULL, the answer is `-EINVAL`, or nothing. Functions of the caller's may be called from any thread that calls the library. They do not
//! unwind.
//!
//! What the library itself finds wrong (a defect of its own) ends the program: no panic crosses the boundary.

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

/// An error as C callers expect it.
fn code(error: Errno) -> c_int {
    -error.0
}

/// Makes something and hands it over: 0 or an error. The place for it is taken first, so that nothing that was made is lost.
///
/// # Safety
/// `to` points to a pointer, or is NULL: `-EINVAL`.
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
