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
mod guards;
mod learn;
mod limits;
mod madvise;
mod maps;
mod mbind;
mod merge;
mod mincore;
mod mlock;
mod mmap;
mod mprotect;
mod mremap;
mod mseal;
mod msync;
mod munmap;
mod names;
mod pkeys;
mod place;
mod remap_file_pages;
mod shm;
mod space;
mod stack;
mod vma;
mod vmas;
mod walk;

pub use call::{Call, ShmSegment};
pub use check::Broken;
pub use config::{Capabilities, Config, Layout, Limits, Overcommit};
pub use errno::Errno;
pub use facts::{Facts, NoFacts};
pub use file::{File, FileArg, FileId, FileKind};
pub use flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
pub use maps::MapsLine;
pub use space::{AddressSpace, SeedVma, Stats};
pub use vma::{AnonVma, Area, Backing, Policy, Vma};
pub use vmas::PageCounts;

/// The examples of the project's front page are run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct FrontPage;
