//! Compiles and runs the examples of texts that belong to no crate's documentation.
//!
//! This package has no other content and no dependents. It exists because a published crate cannot include
//! a file from above its own folder.

/// The front page of the repository.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct FrontPage;

/// The front page of `samara-mm` in the registry, which is not the front page of its documentation.
#[cfg(doctest)]
#[doc = include_str!("../crates/mm/README.md")]
pub struct AddressSpaces;

/// Linux's calls, and their names here.
#[cfg(doctest)]
#[doc = include_str!("guides/from-linux.md")]
pub struct FromLinux;

/// A kernel's memory management.
#[cfg(doctest)]
#[doc = include_str!("guides/kernel.md")]
pub struct Kernel;

/// A kernel's memory management without hardware.
#[cfg(doctest)]
#[doc = include_str!("guides/kernel-in-a-program.md")]
pub struct KernelInAProgram;

/// The memory of a library OS.
#[cfg(doctest)]
#[doc = include_str!("guides/library-os.md")]
pub struct LibraryOs;

/// The memory of an emulator.
#[cfg(doctest)]
#[doc = include_str!("guides/emulator.md")]
pub struct Emulator;

/// A debugger's view of an address space.
#[cfg(doctest)]
#[doc = include_str!("guides/debugger.md")]
pub struct Debugger;
