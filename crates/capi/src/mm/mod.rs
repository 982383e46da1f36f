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
//! | `calls` | the system calls |
//! | `pages` | faults, copies, what is told of pages |
//! | `look` | areas, maps, smaps, checks |
//! | `gate` | whether anything else runs on a memory |
//!
//! # Safety
//!
//! What each function asks of its caller, beside what its own text says: pointers are what the header says they are, and of this library; what has
//! been put is not used any more, by any thread. Functions of the caller's may be called from any thread that calls the library. They do not
//! unwind.
//!
//! What the library itself finds wrong (a defect of its own) ends the program: no panic crosses the boundary.

mod abi;
mod backend;
mod calls;
mod file;
mod gate;
mod life;
mod look;
mod memory;
mod pages;
mod phys;
mod space;

use core::ffi::c_int;

use samara_mm::Errno;

pub use abi::*;
pub use calls::*;
pub use file::{MmFile, mm_file_open, mm_file_put};
pub use life::{Mm, mm_config_default, mm_fork, mm_new, mm_put};
pub use look::*;
pub use pages::*;
pub use phys::{MmPhys, mm_file_punch, mm_file_truncate, mm_phys_new, mm_phys_put, mm_phys_stats};

/// An error as C callers expect it.
fn code(error: Errno) -> c_int {
    -error.0
}

/// 0 or an error; what was made is handed over by `give`.
fn result<T>(made: Result<T, Errno>, give: impl FnOnce(T)) -> c_int {
    match made {
        Ok(made) => {
            give(made);
            0
        }
        Err(error) => code(error),
    }
}
