//! Address spaces with Linux's exact mmap-family semantics.
//!
//! An [`AddressSpace`] is the memory map of one process without the pages. It takes the system
//! calls of the `mmap` family as data ([`Call`]), and returns the address, the error number and the
//! map that Linux on x86-64 has for the same history. This includes which areas merge, where a
//! mapping without a hint goes, which of two errors comes first, and what a failing call leaves
//! behind. The running kernel is the specification: the tests perform the same random histories on
//! both and compare results and maps after every call.
//!
//! ```
//! use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
//!
//! let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
//! // The highest gap below mmap_base; the second mapping grows the first one downwards.
//! let memory = MmapOptions::anonymous(0x3000).prot(Prot::READ | Prot::WRITE);
//! let first = space.mmap(&memory)?;
//! let second = space.mmap(&memory.len(0x1000))?;
//! assert_eq!((first, second), (0x7fff_f7ff_c000, 0x7fff_f7ff_b000));
//! assert_eq!(space.area_count(), 1);
//!
//! // Taking the write permission from the middle cuts it in three, giving it back heals it.
//! space.mprotect(first, 0x1000, Prot::READ)?;
//! assert_eq!(space.area_count(), 3);
//! space.mprotect(first, 0x1000, Prot::READ | Prot::WRITE)?;
//! assert_eq!(
//!     space.maps().next().map(|line| line.to_string()).as_deref(),
//!     Some("7ffff7ffb000-7ffff7fff000 rw-p 00000000 00:00 0 "),
//! );
//! # Ok::<(), samara_mm::Errno>(())
//! ```
//!
//! # Two doors that are one
//!
//! A program that makes calls itself has methods with types for arguments, as above. Calls that come from elsewhere (a trace, a fuzzer, a guest) are
//! data, with the numbers that the program gave ([`abi`] has their names); [`AddressSpace::perform`] takes them, and the methods go
//! through it, too.
//!
//! ```
//! use samara_mm::abi::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_NONE};
//! use samara_mm::{AddressSpace, Call, Config, FileArg, Layout, Limits};
//!
//! let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
//! let flags = MAP_PRIVATE | MAP_ANONYMOUS;
//! let (addr, len, prot, file, offset) = (0, 0x1000, PROT_NONE, FileArg::None, 0);
//! let call = Call::Mmap { addr, len, prot, flags, file, offset };
//! assert_eq!(space.perform(&call)?, 0x7fff_f7ff_e000);
//! # Ok::<(), samara_mm::Errno>(())
//! ```
//!
//! # Page faults
//!
//! The first write to a private area gives it an *anon_vma*, the owner of its private pages, and areas with different owners never
//! merge. So the map depends on faults. A program that takes its own faults reports each one with
//! [`AddressSpace::fault`]. One that watches a process from outside cannot see them: it implements [`Watch`], performs calls with
//! [`AddressSpace::perform_with`], and is asked whether an area has private
//! pages when that decides something; [`AddressSpace::facts_needed`] tells beforehand for which. If several areas were written
//! between two looks, the order of these writes is unknown; the likeliest is taken, in which neighbours come to share an owner.
//!
//! # Who owns the pages
//!
//! An [`AddressSpace`] is the map alone. The pages have an owner outside, behind the trait
//! [`Pages`], which is passed to each call ([`AddressSpace::with`],
//! [`AddressSpace::perform_with`]). It is asked what was written, and notified, in Linux's order,
//! of what the call maps, unmaps, protects, moves, gives up and populates.
//!
//! | owner | who | how |
//! |---|---|---|
//! | no owner | a tool that wants only the map | [`NoPages`], which costs nothing |
//! | somebody else | a tracer, which answers questions; a counter or a mirror, which listens | [`Watch`]; `samara trace` |
//! | page tables | a kernel, a hypervisor, an emulator with an MMU of its own | the feature `paging` and its module `process` |
//! | a region of a host process | a library OS, an emulator | [`Pages`] and [`Config::within`]; `examples/host_region.rs`, complete in 200 lines |
//!
//! An owner that cannot do what it is told may refuse it ([`Pages::refuses`]): then nothing of the call has happened, neither in the map nor with the owner.
//!
//! # New programs
//!
//! The feature `exec` adds the module `exec`: the address space that `execve(2)` makes of an ELF
//! file, its interpreter and its strings, from the bytes of the files. It is a feature because only
//! this module reads ELF files, with the crate `object`. An embedder that loads programs by other
//! means does not build it.
//!
//! # Threads
//!
//! Calls that change the map borrow the [`AddressSpace`] exclusively: one at a time, by a lock of the caller's. Look-ups need no lock: a
//! [`SharedMap`], made by [`AddressSpace::share`], goes to other threads, which find areas through it and walk the map while it is
//! changed. Its documentation says what they see. The order of locks:
//!
//! ```text
//! the caller's lock on the AddressSpace   (mmap_lock; for calls, faults that change the map, fork)
//!   the lock of one area (SharedMap::hold)  (never waits; calls that change the area wait for it)
//!     MapView                               (never waits)
//! ```
//!
//! # What it does not know
//!
//! The engine holds no pages. It does not know what depends on them: the end of a file (faults beyond it, and locking there, fail in Linux), which pages
//! `mincore` reports, and whether `MADV_COLLAPSE` or `mbind` with `MPOL_MF_STRICT` finds the pages that it wants. Owners of the pages
//! ([`Pages`]) answer some of it.
//!
//! # Huge pages of the pool
//!
//! Mappings with `MAP_HUGETLB` and of hugetlbfs reserve their pages when they are made, and take
//! them when they are touched. A [`HugePool`], which address spaces share through their [`Config`],
//! counts these pages. No owner of the pages is notified of them. Owners (other than [`NoPages`]
//! and those that only answer) cannot map them: `ENOSYS`.
//!
//! # Costs
//!
//! Areas lie in a maple tree of ranges that also tracks the gaps. Looking up, merging, cutting and placing take O(log n) each for n areas. A call
//! over k areas takes k of these steps. It changes the tree in place unless other threads may look. Counts are kept, so that no check of a limit walks
//! the areas. Memory is allocated fallibly: a call that finds none returns `ENOMEM` and leaves a map that passes [`AddressSpace::check`].
#![no_std]

extern crate alloc;
#[cfg(feature = "hosted")]
extern crate std;

pub mod abi;
mod atomic;
mod call;
mod calls;
mod config;
mod errno;
#[cfg(feature = "exec")]
pub mod exec;
mod file;
mod flags;
#[doc(hidden)]
pub mod heap;
mod huge_pool;
pub mod kernel;
mod object;
pub mod observe;
mod pages;
#[cfg(feature = "paging")]
pub mod process;
mod space;
mod vma;
#[cfg(feature = "paging")]
pub mod walkers;

pub use abi::{
    Advice, AttachFlags, LockAllFlags, LockFlags, MapFlags, Prot, RemapFlags, SyncFlags,
};
pub use call::{Call, ShmSegment};
pub use calls::typed::{MmapOptions, MremapOptions, WithPages};
pub use config::{Calls, Capabilities, Config, Layout, Limits, Mdwe, Overcommit};
pub use errno::Errno;
pub use file::{DriverFlags, File, FileArg, FileId, FileKind};
pub use flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
pub use heap::Counted;
pub use huge_pool::{HugeFigures, HugePool};
pub use kernel::KernelVersion;
pub use object::Object;
pub use pages::{Moving, NoPages, PageAdvice, Pages, PrepareOp, Watch};
pub use space::check::Broken;
pub use space::counts::PageCounts;
pub use space::maps::MapsLine;
pub use space::obstacles::Obstacles;
pub use space::shared::{HeldArea, MapView, SharedMap};
pub use space::{AddressSpace, SeedVma, Stats};
pub use vma::{AnonVma, Area, Backing, Policy, SharedObject, SpecialObject, Vma};

/// The former name of [`PageAdvice`].
#[deprecated(note = "renamed to `PageAdvice`")]
pub type Discard = PageAdvice;

/// The former name of [`PrepareOp`].
#[deprecated(note = "renamed to `PrepareOp`")]
pub type Coming = PrepareOp;
