//! Address spaces with Linux's exact mmap-family semantics.
#![no_std]

extern crate alloc;

mod call;
mod errno;
mod file;

pub use call::{Call, ShmSegment};
pub use errno::Errno;
pub use file::{File, FileArg, FileId, FileKind};

/// Placeholder until the address space lands.
#[derive(Debug)]
pub struct AddressSpace;
impl AddressSpace {
    /// Placeholder until the address space lands.
    pub fn perform(&mut self, _call: &Call) -> Result<u64, Errno> {
        Err(Errno::ENOSYS)
    }
}
