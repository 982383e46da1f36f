//! Address spaces with Linux's exact mmap-family semantics.
#![no_std]

extern crate alloc;

mod brk;
mod call;
mod check;
mod config;
mod errno;
mod facts;
mod fallible;
mod fault;
mod file;
mod flags;
mod fork;
mod learn;
mod limits;
mod maps;
mod merge;
mod mmap;
mod mprotect;
mod munmap;
mod place;
mod space;
mod stack;
mod standin;
mod vma;
mod vmas;

pub use call::{Call, ShmSegment};
pub use check::Broken;
pub use config::{Capabilities, Config, Layout, Limits, Overcommit};
pub use errno::Errno;
pub use facts::{Facts, NoFacts};
pub use file::{File, FileArg, FileId, FileKind};
pub use flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
pub use maps::{MapsLine, Name, Perms};
pub use space::{AddressSpace, SeedVma, Stats};
pub use vma::{AnonVma, Area, Backing, Policy, Vma};
pub use vmas::PageCounts;
